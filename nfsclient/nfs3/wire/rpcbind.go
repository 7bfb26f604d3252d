package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Protocols of GetPortArgs.
const (
	ProtoTCP = 6
	ProtoUDP = 17
)

// GetPortArgs is the arguments of PMAPPROC_GETPORT (RFC 1833 section 3.2):
// the struct mapping, whose port is ignored.
type GetPortArgs struct{ Program, Version, Proto, Port uint32 }

func (a *GetPortArgs) Append(w *xdr.Writer) {
	w.Uint32(a.Program)
	w.Uint32(a.Version)
	w.Uint32(a.Proto)
	w.Uint32(a.Port)
}

func (a *GetPortArgs) Parse(r *xdr.Reader) {
	a.Program, a.Version, a.Proto, a.Port = r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()
}

// GetPortRes is its results: 0 when the program is not registered.
type GetPortRes struct{ Port uint32 }

func (a *GetPortRes) Append(w *xdr.Writer) { w.Uint32(a.Port) }
func (a *GetPortRes) Parse(r *xdr.Reader)  { a.Port = r.Uint32() }

// GetAddrArgs is the arguments of RPCBPROC_GETADDR (RFC 1833 section 2.2.1):
// the struct rpcb.
type GetAddrArgs struct {
	Program, Version   uint32
	NetID, Addr, Owner string
}

func (a *GetAddrArgs) Append(w *xdr.Writer) {
	w.Uint32(a.Program)
	w.Uint32(a.Version)
	w.String(a.NetID)
	w.String(a.Addr)
	w.String(a.Owner)
}

func (a *GetAddrArgs) Parse(r *xdr.Reader) {
	a.Program, a.Version = r.Uint32(), r.Uint32()
	a.NetID, a.Addr, a.Owner = r.String(MaxNetID), r.String(MaxUniversalAddr), r.String(MaxOwner)
}

// GetAddrRes is its results: a universal address (RFC 5665), empty when the
// program is not registered.
type GetAddrRes struct{ Addr string }

func (a *GetAddrRes) Append(w *xdr.Writer) { w.String(a.Addr) }
func (a *GetAddrRes) Parse(r *xdr.Reader)  { a.Addr = r.String(MaxUniversalAddr) }
