package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// TestArgs is nlm4_testargs, the arguments of TEST (RFC 1813 section 6.3.1), and
// of GRANTED and GRANTED_MSG (6.3.5), which a server calls.
type TestArgs struct {
	Cookie    string
	Exclusive bool
	Lock      Lock
}

func (a *TestArgs) Append(w *xdr.Writer) {
	w.String(a.Cookie)
	w.Bool(a.Exclusive)
	a.Lock.append(w)
}

func (a *TestArgs) Parse(r *xdr.Reader) {
	a.Cookie, a.Exclusive = r.String(MaxNetObj), r.Bool()
	a.Lock.parse(r)
}

// Holder is nlm4_holder: a lock that conflicts, and whose it is. What knfsd says of
// the owner is of no use: the svid is one of its own, and the owner's handle empty.
type Holder struct {
	Exclusive      bool
	SVID           int32
	OH             string
	Offset, Length uint64
}

// TestRes is nlm4_testres, the results of TEST. Holder is there with Denied.
type TestRes struct {
	Cookie string
	Stat   Stat
	Holder Holder
}

func (a *TestRes) Append(w *xdr.Writer) {
	w.String(a.Cookie)
	w.Uint32(uint32(a.Stat))
	if a.Stat != Denied {
		return
	}
	w.Bool(a.Holder.Exclusive)
	w.Uint32(uint32(a.Holder.SVID))
	w.String(a.Holder.OH)
	w.Uint64(a.Holder.Offset)
	w.Uint64(a.Holder.Length)
}

func (a *TestRes) Parse(r *xdr.Reader) {
	a.Cookie, a.Stat, a.Holder = r.String(MaxNetObj), parseStat(r), Holder{}
	if a.Stat != Denied || r.Err() != nil {
		return
	}
	h := &a.Holder
	h.Exclusive, h.SVID, h.OH = r.Bool(), int32(r.Uint32()), r.String(MaxNetObj)
	h.Offset, h.Length = r.Uint64(), r.Uint64()
}
