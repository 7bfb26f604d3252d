package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Bits of Sequence.StatusFlags (RFC 8881 section 18.46.3).
const (
	SeqCBPathDown              = 0x001
	SeqCBGSSContextsExpiring   = 0x002
	SeqCBGSSContextsExpired    = 0x004
	SeqExpiredAllStateRevoked  = 0x008
	SeqExpiredSomeStateRevoked = 0x010
	SeqAdminStateRevoked       = 0x020
	SeqRecallableStateRevoked  = 0x040
	SeqLeaseMoved              = 0x080
	SeqRestartReclaimNeeded    = 0x100
	SeqCBPathDownSession       = 0x200
	SeqBackchannelFault        = 0x400
	SeqDevidChanged            = 0x800
	SeqDevidDeleted            = 0x1000
)

// Sequence is SEQUENCE (RFC 8881 section 18.46).
type Sequence struct {
	Session     SessionID
	SequenceID  uint32
	Slot        uint32
	HighestSlot uint32
	CacheThis   bool
	// Results.
	ResSession        SessionID
	ResSequenceID     uint32
	ResSlot           uint32
	ResHighestSlot    uint32
	TargetHighestSlot uint32
	StatusFlags       uint32
}

func (*Sequence) Op() Op { return OpSequence }

func (o *Sequence) AppendArgs(w *xdr.Writer) {
	o.Session.append(w)
	w.Uint32(o.SequenceID)
	w.Uint32(o.Slot)
	w.Uint32(o.HighestSlot)
	w.Bool(o.CacheThis)
}

func (o *Sequence) ParseArgs(r *xdr.Reader) {
	o.Session.parse(r)
	o.SequenceID, o.Slot, o.HighestSlot, o.CacheThis = r.Uint32(), r.Uint32(), r.Uint32(), r.Bool()
}

func (o *Sequence) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	o.ResSession.append(w)
	w.Uint32(o.ResSequenceID)
	w.Uint32(o.ResSlot)
	w.Uint32(o.ResHighestSlot)
	w.Uint32(o.TargetHighestSlot)
	w.Uint32(o.StatusFlags)
}

func (o *Sequence) ParseRes(r *xdr.Reader, st Status) {
	if st != OK {
		return
	}
	o.ResSession.parse(r)
	o.ResSequenceID, o.ResSlot, o.ResHighestSlot = r.Uint32(), r.Uint32(), r.Uint32()
	o.TargetHighestSlot, o.StatusFlags = r.Uint32(), r.Uint32()
}

func (*Sequence) ReplyMax() int { return sizeOp + sizeSession + 5*4 }

// DestroySession is DESTROY_SESSION (section 18.37).
type DestroySession struct {
	noRes
	Session SessionID
}

func (*DestroySession) Op() Op                     { return OpDestroySession }
func (o *DestroySession) AppendArgs(w *xdr.Writer) { o.Session.append(w) }
func (o *DestroySession) ParseArgs(r *xdr.Reader)  { o.Session.parse(r) }

// DestroyClientID is DESTROY_CLIENTID (section 18.50).
type DestroyClientID struct {
	noRes
	ClientID ClientID
}

func (*DestroyClientID) Op() Op                     { return OpDestroyClientID }
func (o *DestroyClientID) AppendArgs(w *xdr.Writer) { w.Uint64(uint64(o.ClientID)) }
func (o *DestroyClientID) ParseArgs(r *xdr.Reader)  { o.ClientID = ClientID(r.Uint64()) }

// ReclaimComplete is RECLAIM_COMPLETE (section 18.51).
type ReclaimComplete struct {
	noRes
	OneFS bool
}

func (*ReclaimComplete) Op() Op                     { return OpReclaimComplete }
func (o *ReclaimComplete) AppendArgs(w *xdr.Writer) { w.Bool(o.OneFS) }
func (o *ReclaimComplete) ParseArgs(r *xdr.Reader)  { o.OneFS = r.Bool() }

// Directions of BindConnToSession, as asked for and as granted.
const (
	BindFore       = 1
	BindBack       = 2
	BindForeOrBoth = 3
	BindBackOrBoth = 7
	BoundFore      = 1
	BoundBack      = 2
	BoundBoth      = 3
)

// BindConnToSession is BIND_CONN_TO_SESSION (section 18.34).
type BindConnToSession struct {
	Session SessionID
	Dir     uint32
	RDMA    bool
	// Results.
	ResSession SessionID
	ResDir     uint32
	ResRDMA    bool
}

func (*BindConnToSession) Op() Op { return OpBindConnToSession }

func (o *BindConnToSession) AppendArgs(w *xdr.Writer) {
	o.Session.append(w)
	w.Uint32(o.Dir)
	w.Bool(o.RDMA)
}

func (o *BindConnToSession) ParseArgs(r *xdr.Reader) {
	o.Session.parse(r)
	o.Dir = parseEnum(r, "channel direction", BindFore, BindBackOrBoth)
	o.RDMA = r.Bool()
}

func (o *BindConnToSession) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	o.ResSession.append(w)
	w.Uint32(o.ResDir)
	w.Bool(o.ResRDMA)
}

func (o *BindConnToSession) ParseRes(r *xdr.Reader, st Status) {
	if st != OK {
		return
	}
	o.ResSession.parse(r)
	o.ResDir = parseEnum(r, "channel direction", BoundFore, BoundBoth)
	o.ResRDMA = r.Bool()
}

func (*BindConnToSession) ReplyMax() int { return sizeOp + sizeSession + 4 + 4 }
