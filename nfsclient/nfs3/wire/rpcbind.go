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

// Rpcb is the struct rpcb (RFC 1833 section 2.1): the arguments of
// RPCBPROC_SET, RPCBPROC_UNSET and RPCBPROC_GETADDR, and what RPCBPROC_DUMP lists.
type Rpcb struct {
	Program, Version   uint32
	NetID, Addr, Owner string
}

func (a *Rpcb) Append(w *xdr.Writer) {
	w.Uint32(a.Program)
	w.Uint32(a.Version)
	w.String(a.NetID)
	w.String(a.Addr)
	w.String(a.Owner)
}

func (a *Rpcb) Parse(r *xdr.Reader) {
	a.Program, a.Version = r.Uint32(), r.Uint32()
	a.NetID, a.Addr, a.Owner = r.String(MaxNetID), r.String(MaxUniversalAddr), r.String(MaxOwner)
}

// GetAddrRes is its results: a universal address (RFC 5665), empty when the
// program is not registered.
type GetAddrRes struct{ Addr string }

func (a *GetAddrRes) Append(w *xdr.Writer) { w.String(a.Addr) }
func (a *GetAddrRes) Parse(r *xdr.Reader)  { a.Addr = r.String(MaxUniversalAddr) }

// SetRes is the results of RPCBPROC_SET and RPCBPROC_UNSET.
type SetRes struct{ OK bool }

func (a *SetRes) Append(w *xdr.Writer) { w.Bool(a.OK) }
func (a *SetRes) Parse(r *xdr.Reader)  { a.OK = r.Bool() }

// RpcbList is the results of RPCBPROC_DUMP: everything registered.
type RpcbList struct{ List []Rpcb }

func (a *RpcbList) Append(w *xdr.Writer) {
	for i := range a.List {
		w.Bool(true)
		a.List[i].Append(w)
	}
	w.Bool(false)
}

func (a *RpcbList) Parse(r *xdr.Reader) {
	a.List = nil
	for r.Bool() {
		if len(a.List) == MaxRegistrations {
			r.Fail("more than %d registrations", MaxRegistrations)
			return
		}
		var e Rpcb
		e.Parse(r)
		a.List = append(a.List, e)
	}
}
