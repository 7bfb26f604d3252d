package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Message is the arguments or the results of a procedure.
type Message interface {
	Append(w *xdr.Writer)
	Parse(r *xdr.Reader)
}

// Lock is nlm4_lock: a range of a file, and whose it is. Length 0 is to the end
// of the file, wherever that comes to be.
type Lock struct {
	Caller         string
	Handle         nfsclient.Handle
	OH             string
	SVID           int32
	Offset, Length uint64
}

func (l *Lock) append(w *xdr.Writer) {
	w.String(l.Caller)
	w.String(string(l.Handle))
	w.String(l.OH)
	w.Uint32(uint32(l.SVID))
	w.Uint64(l.Offset)
	w.Uint64(l.Length)
}

func (l *Lock) parse(r *xdr.Reader) {
	l.Caller = r.String(MaxCaller)
	l.Handle = nfsclient.Handle(r.String(MaxHandle))
	l.OH = r.String(MaxNetObj)
	l.SVID = int32(r.Uint32())
	l.Offset, l.Length = r.Uint64(), r.Uint64()
}

// LockArgs is nlm4_lockargs, the arguments of LOCK and NM_LOCK (RFC 1813 section
// 6.3.2).
type LockArgs struct {
	Cookie           string
	Block, Exclusive bool
	Lock             Lock
	Reclaim          bool
	State            int32
}

func (a *LockArgs) Append(w *xdr.Writer) {
	w.String(a.Cookie)
	w.Bool(a.Block)
	w.Bool(a.Exclusive)
	a.Lock.append(w)
	w.Bool(a.Reclaim)
	w.Uint32(uint32(a.State))
}

func (a *LockArgs) Parse(r *xdr.Reader) {
	a.Cookie, a.Block, a.Exclusive = r.String(MaxNetObj), r.Bool(), r.Bool()
	a.Lock.parse(r)
	a.Reclaim, a.State = r.Bool(), int32(r.Uint32())
}

// CancelArgs is nlm4_cancargs, the arguments of CANCEL (section 6.3.3).
type CancelArgs struct {
	Cookie           string
	Block, Exclusive bool
	Lock             Lock
}

func (a *CancelArgs) Append(w *xdr.Writer) {
	w.String(a.Cookie)
	w.Bool(a.Block)
	w.Bool(a.Exclusive)
	a.Lock.append(w)
}

func (a *CancelArgs) Parse(r *xdr.Reader) {
	a.Cookie, a.Block, a.Exclusive = r.String(MaxNetObj), r.Bool(), r.Bool()
	a.Lock.parse(r)
}

// UnlockArgs is nlm4_unlockargs, the arguments of UNLOCK (section 6.3.4).
type UnlockArgs struct {
	Cookie string
	Lock   Lock
}

func (a *UnlockArgs) Append(w *xdr.Writer) {
	w.String(a.Cookie)
	a.Lock.append(w)
}

func (a *UnlockArgs) Parse(r *xdr.Reader) {
	a.Cookie = r.String(MaxNetObj)
	a.Lock.parse(r)
}

// Res is nlm4_res, the results of LOCK, CANCEL, UNLOCK and GRANTED, and the
// arguments of GRANTED_RES.
type Res struct {
	Cookie string
	Stat   Stat
}

func (a *Res) Append(w *xdr.Writer) {
	w.String(a.Cookie)
	w.Uint32(uint32(a.Stat))
}

func (a *Res) Parse(r *xdr.Reader) { a.Cookie, a.Stat = r.String(MaxNetObj), parseStat(r) }

// parseStat takes no number that is not defined: what it would mean is unknown,
// and no lock is held by guessing.
func parseStat(r *xdr.Reader) Stat {
	s := Stat(r.Uint32())
	if s > Failed {
		r.Fail("nlm4_stats %d", uint32(s))
		return Failed
	}
	return s
}
