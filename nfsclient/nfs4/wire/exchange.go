package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Flags of EXCHANGE_ID (RFC 8881 section 18.35).
const (
	ExchangeSuppMovedRefer   = 0x00000001
	ExchangeSuppMovedMigr    = 0x00000002
	ExchangeSuppFenceOps     = 0x00000004
	ExchangeBindPrincStateid = 0x00000100
	ExchangeUseNonPNFS       = 0x00010000
	ExchangeUsePNFSMDS       = 0x00020000
	ExchangeUsePNFSDS        = 0x00040000
	ExchangeUpdConfirmedRecA = 0x40000000
	ExchangeConfirmedR       = 0x80000000
	ProtectNone              = 0
	ProtectMachCred          = 1
)

// Protect is state_protect4_a and state_protect4_r, but for SP4_SSV, which this package
// refuses. The sets, of operations, hold with ProtectMachCred.
type Protect struct {
	How                    uint32
	MustEnforce, MustAllow Bitmap
}

func (p *Protect) append(w *xdr.Writer) {
	w.Uint32(p.How)
	if p.How == ProtectMachCred {
		p.MustEnforce.append(w)
		p.MustAllow.append(w)
	}
}

func (p *Protect) parse(r *xdr.Reader) {
	*p = Protect{How: parseEnum(r, "state protection", ProtectNone, ProtectMachCred)}
	if p.How == ProtectMachCred {
		p.MustEnforce.parse(r)
		p.MustAllow.parse(r)
	}
}

// ImplID is nfs_impl_id4, which may be left out.
type ImplID struct {
	Set          bool
	Domain, Name string
	Date         Time
}

func (i *ImplID) append(w *xdr.Writer) {
	w.Bool(i.Set) // the length of an array of at most one
	if i.Set {
		w.String(i.Domain)
		w.String(i.Name)
		i.Date.append(w)
	}
}

func (i *ImplID) parse(r *xdr.Reader) {
	*i = ImplID{Set: r.Count(1) == 1}
	if i.Set {
		i.Domain, i.Name = r.String(MaxOpaque), r.String(MaxOpaque)
		i.Date.parse(r)
	}
}

// ExchangeID is EXCHANGE_ID.
type ExchangeID struct {
	Verifier nfsclient.Verifier
	Owner    []byte
	Flags    uint32
	Protect  Protect
	Impl     ImplID
	// Results.
	ClientID   ClientID
	SequenceID uint32
	ResFlags   uint32
	ResProtect Protect
	// ServerMinor and ServerMajor are the server's owner.
	ServerMinor uint64
	ServerMajor string
	ServerScope string
	ServerImpl  ImplID
}

func (*ExchangeID) Op() Op { return OpExchangeID }

func (o *ExchangeID) AppendArgs(w *xdr.Writer) {
	appendVerf(w, o.Verifier)
	w.Opaque(o.Owner)
	w.Uint32(o.Flags)
	o.Protect.append(w)
	o.Impl.append(w)
}

func (o *ExchangeID) ParseArgs(r *xdr.Reader) {
	o.Verifier = parseVerf(r)
	parseBytes(r, &o.Owner, MaxOpaque)
	o.Flags = r.Uint32()
	o.Protect.parse(r)
	o.Impl.parse(r)
}

func (o *ExchangeID) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	w.Uint64(uint64(o.ClientID))
	w.Uint32(o.SequenceID)
	w.Uint32(o.ResFlags)
	o.ResProtect.append(w)
	w.Uint64(o.ServerMinor)
	w.String(o.ServerMajor)
	w.String(o.ServerScope)
	o.ServerImpl.append(w)
}

func (o *ExchangeID) ParseRes(r *xdr.Reader, st Status) {
	if st != OK {
		return
	}
	o.ClientID, o.SequenceID, o.ResFlags = ClientID(r.Uint64()), r.Uint32(), r.Uint32()
	o.ResProtect.parse(r)
	o.ServerMinor, o.ServerMajor, o.ServerScope = r.Uint64(), r.String(MaxOpaque), r.String(MaxOpaque)
	o.ServerImpl.parse(r)
}

func (*ExchangeID) ReplyMax() int {
	return sizeOp + 8 + 4 + 4 + sizeProtect + 8 + 2*sizeOpaque + sizeImplID
}
