package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// ReferringCalls is referring_call_list4: calls of the client, in one session, that a callback may
// overtake the replies of (RFC 8881 section 2.10.6.3).
type ReferringCalls struct {
	Session SessionID
	Calls   []ReferringCall
}

// ReferringCall is referring_call4.
type ReferringCall struct{ SequenceID, Slot uint32 }

func (l *ReferringCalls) append(w *xdr.Writer) {
	l.Session.append(w)
	w.Uint32(uint32(len(l.Calls)))
	for _, c := range l.Calls {
		w.Uint32(c.SequenceID)
		w.Uint32(c.Slot)
	}
}

func (l *ReferringCalls) parse(r *xdr.Reader) {
	l.Session.parse(r)
	for n := r.Count(MaxReferring); n > 0 && r.Err() == nil; n-- {
		l.Calls = append(l.Calls, ReferringCall{r.Uint32(), r.Uint32()})
	}
}

// CBSequence is CB_SEQUENCE (section 20.9).
type CBSequence struct {
	Session     SessionID
	SequenceID  uint32
	Slot        uint32
	HighestSlot uint32
	CacheThis   bool
	Referring   []ReferringCalls
	// Results.
	ResSession        SessionID
	ResSequenceID     uint32
	ResSlot           uint32
	ResHighestSlot    uint32
	TargetHighestSlot uint32
}

func (*CBSequence) Op() CBOp { return OpCBSequence }

func (o *CBSequence) AppendArgs(w *xdr.Writer) {
	o.Session.append(w)
	w.Uint32(o.SequenceID)
	w.Uint32(o.Slot)
	w.Uint32(o.HighestSlot)
	w.Bool(o.CacheThis)
	w.Uint32(uint32(len(o.Referring)))
	for i := range o.Referring {
		o.Referring[i].append(w)
	}
}

func (o *CBSequence) ParseArgs(r *xdr.Reader) {
	o.Session.parse(r)
	o.SequenceID, o.Slot, o.HighestSlot, o.CacheThis = r.Uint32(), r.Uint32(), r.Uint32(), r.Bool()
	o.Referring = nil
	for n := r.Count(MaxReferring); n > 0 && r.Err() == nil; n-- {
		var l ReferringCalls
		l.parse(r)
		o.Referring = append(o.Referring, l)
	}
}

func (o *CBSequence) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	o.ResSession.append(w)
	w.Uint32(o.ResSequenceID)
	w.Uint32(o.ResSlot)
	w.Uint32(o.ResHighestSlot)
	w.Uint32(o.TargetHighestSlot)
}

func (o *CBSequence) ParseRes(r *xdr.Reader, st Status) {
	if st != OK {
		return
	}
	o.ResSession.parse(r)
	o.ResSequenceID, o.ResSlot = r.Uint32(), r.Uint32()
	o.ResHighestSlot, o.TargetHighestSlot = r.Uint32(), r.Uint32()
}

func (*CBSequence) ReplyMax() int { return sizeOp + sizeSession + 4*4 }
