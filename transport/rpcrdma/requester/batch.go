package requester

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/layout"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// Batch hands a requester what has come by its connection: completions, replies, and errors. It is begun, given all of it,
// and ended; between the two it holds the requester's lock, and its owner neither posts nor waits. Then the receives are
// posted again, so that no call goes out for whose reply there is no room, and only then Wake is called. A Batch is used
// by one goroutine at a time, again and again.
type Batch struct {
	r       *Requester
	wakeups []*slot
	// released are the credits of calls given up.
	released int
}

// NewBatch returns a batch that has not begun.
func (r *Requester) NewBatch() Batch { return Batch{r: r} }

// Arrived is a message in receive buffer Buf, of Len bytes of which Header are the transport's.
type Arrived struct {
	Buf, Header, Len int
	Padding          *rfc5666.Alignment
}

// MaxUseless is how many messages in a row may be of no use before the peer is
// given up.
const MaxUseless = 32

// ErrUseless is the end of a connection for more of them.
var ErrUseless = fmt.Errorf("%w: too many messages that answer no call", transport.ErrProtocol)

// Begin begins the batch.
func (b *Batch) Begin() { b.r.mu.Lock() }

// End ends it, and reports whether callers are to be woken. The error is that too many messages were of no use.
func (b *Batch) End() (callers bool, err error) {
	if b.r.useless > MaxUseless {
		err = ErrUseless
	}
	callers = len(b.wakeups) > 0
	b.r.mu.Unlock()
	return callers, err
}

// Wake wakes the callers that the batch concerns, and gives back the credits that are free by it.
func (b *Batch) Wake() {
	for _, s := range b.wakeups {
		s.wake()
	}
	share := credit.Abandoned
	if b.r.patient {
		share = credit.Live
	}
	for range b.released {
		b.r.credits.Release(share)
	}
	b.wakeups, b.released = b.wakeups[:0], 0
}

// Empty reports whether Wake has nothing to do.
func (b *Batch) Empty() bool { return len(b.wakeups)+b.released == 0 }

// Completed takes the completion of a work request with one of the requester's IDs. Requester.mu is held.
func (b *Batch) Completed(id uint64, op verbs.Op) {
	r := b.r
	n := uint64(len(r.all))
	if id >= 2*n {
		if s := r.corners.read(int(id - 2*n)); s != nil {
			b.wakeLater(s)
		}
		return
	}
	s := &r.all[id>>1]
	switch {
	case op == verbs.OpBind: // of a long call whose requests are posted in parts
	case id&1 != 0:
		s.invalidating = false
	default:
		s.sending = false
	}
	if s.state == slotDraining && !s.sending {
		r.putSlot(s)
		b.released++
		return
	}
	b.wakeLater(s)
}

// Awaited reports whether a call with that XID waits for its reply, or is given up and has not had it. Requester.mu is held.
func (b *Batch) Awaited(xid uint32) bool {
	s := b.r.slots[xid]
	return s != nil && !s.answered()
}

// Known reports whether a call has that XID, answered or not. Requester.mu is held.
func (b *Batch) Known(xid uint32) bool { return b.r.slots[xid] != nil }

// ByReadChunks reports whether a message with a read list is a reply that a call waits for, as replies by read chunks are
// configured. Requester.mu is held.
func (b *Batch) ByReadChunks(m *wire.Msg) bool { return b.r.corners != nil && b.r.corners.awaits(m) }

// Errored hands an error to the call that it is for. Requester.mu is held.
func (b *Batch) Errored(e *wire.Error) {
	s := b.answered(e.Header, e)
	switch {
	case s == nil:
	case s.state != slotWaiting:
		b.late(s)
	default:
		if s.fault == nil {
			s.fault = &ReplyError{Version: s.terms.Version, Code: e.Code, Fault: e.Fault, Low: e.Low, High: e.High}
		}
		s.state = slotReplied
		b.wakeLater(s)
	}
}

// Garbled has the call with that XID fail, as err says, because of its reply, if there is one. Requester.mu is held.
func (b *Batch) Garbled(xid uint32, err error) {
	s := b.r.slots[xid]
	if s == nil {
		return
	}
	switch s.state {
	case slotWaiting:
		s.fault, s.state = err, slotReplied
		b.wakeLater(s)
	case slotAbandoned, slotDetached:
		b.late(s)
	}
}

// answered finds the call that a reply or an error is for, and takes the grant and the version from it. It returns
// nil if there is none. Requester.mu is held.
func (b *Batch) answered(h wire.Header, refusal *wire.Error) *slot {
	r := b.r
	s := r.slots[h.XID]
	if s == nil || s.answered() {
		r.count.BadXIDs.Add(1)
		r.useless++
		return nil
	}
	r.useless = 0
	if h.Version != s.terms.Version && (refusal == nil || refusal.Code != wire.ErrVers) {
		b.Useless()
		s.fault = badReply("version %d, in answer to version %d", h.Version, s.terms.Version)
	} else if r.conn.Agree(h, refusal) {
		if limit, change := r.credits.Grant(h.Credits); change != 0 {
			r.count.Granted.Add(int64(change))
			r.count.Grant.Store(int64(limit))
		}
	}
	return s
}

// Replied hands the reply m, which arrived as a says, to its call, in exchange for another message of no meaning. It
// returns the receive buffer that is free for it. Requester.mu is held.
func (b *Batch) Replied(m *wire.Msg, a Arrived) (free int) {
	s := b.answered(m.Header, nil)
	if s == nil {
		return a.Buf
	}
	if s.state != slotWaiting {
		if b.r.corners != nil {
			b.r.corners.tooLate(s, m)
		}
		b.late(s)
		return a.Buf
	}
	s.reply, *m = *m, s.reply
	free, s.buf = s.buf, a.Buf
	s.headerLen, s.replyLen, s.layout = a.Header, a.Len, layout.Received{Padding: a.Padding}
	s.state = slotReplied
	b.wakeLater(s)
	return free
}

// wakeLater has Wake wake the caller of s. The turn is not passed to it any more: it
// would have no use for it. Requester.mu is held.
func (b *Batch) wakeLater(s *slot) {
	b.r.rested(s)
	b.wakeups = append(b.wakeups, s)
}

// late handles the reply to a call that was given up: its credit is free now.
// Requester.mu is held.
func (b *Batch) late(s *slot) {
	r := b.r
	if s.state == slotAbandoned {
		s.state = slotLate
		return
	}
	if s.sending {
		s.state = slotDraining
		return
	}
	if r.corners != nil && r.corners.takeDone(s) {
		s.state = slotReplied // once more would be too often
		r.corners.releaseLater(s)
		return
	}
	r.putSlot(s)
	b.released++
}

// Useless counts a message of no use, and Useful ends the row of those. Requester.mu is held.
func (b *Batch) Useless() {
	b.r.count.BadReplies.Add(1)
	b.r.useless++
}

// Useful says that a message was of use. Requester.mu is held.
func (b *Batch) Useful() { b.r.useless = 0 }

// noteUseless is Batch.Useless for a reply whose caller finds it bad.
func (r *Requester) noteUseless() {
	b := Batch{r: r}
	b.Begin()
	b.Useless()
	r.mu.Unlock()
}

// Invalidated marks the key that a Send with Invalidate named: one of the call
// it answers, or, from a responder that errs, of any other. Requester.mu is held.
func (b *Batch) Invalidated(xid, rkey uint32) {
	r := b.r
	if s := r.slots[xid]; s != nil && s.invalidated(rkey) {
		r.count.RemoteInvalidations.Add(1)
		return
	}
	for _, s := range r.slots {
		if s.invalidated(rkey) {
			r.count.RemoteInvalidations.Add(1)
			return
		}
	}
}

// invalidated marks a key of s as invalid and reports whether there is one. Requester.mu is held.
func (s *slot) invalidated(rkey uint32) bool {
	for i := range s.keys {
		if k := &s.keys[i]; k.rkey == rkey && !k.invalid {
			k.invalid = true
			return true
		}
	}
	return false
}
