package rpcrdma

import (
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// How a requester handles messages that answer its calls. These functions run on the goroutine that has received the
// message.

// arrived is a message in receive buffer buf, of len bytes of which header are the transport's.
type arrived struct {
	buf, header, len int
	padding          *rfc5666.Alignment
}

// errored hands an error to the call that it is for. r.mu is held.
func (r *requester) errored(e *wire.Error) {
	s := r.answered(e.Header, e)
	switch {
	case s == nil:
	case s.state != slotWaiting:
		r.late(s)
	default:
		if s.fault == nil {
			s.fault = &ReplyError{Version: s.terms.Version, Code: e.Code, Fault: e.Fault, Low: e.Low, High: e.High}
		}
		s.state = slotReplied
		r.wakeLater(s)
	}
}

// garbled has the call in s fail, as err says, because of its reply. r.mu is held.
func (r *requester) garbled(s *slot, err error) {
	switch s.state {
	case slotWaiting:
		s.fault, s.state = err, slotReplied
		r.wakeLater(s)
	case slotAbandoned, slotDetached:
		r.late(s)
	}
}

// answered finds the call that a reply or an error is for, and takes the grant and the version from it. It returns
// nil if there is none. r.mu is held.
func (r *requester) answered(h wire.Header, refusal *wire.Error) *slot {
	s := r.slots[h.XID]
	if s == nil || s.answered() {
		r.stats.badXIDs.Add(1)
		r.bad++
		return nil
	}
	r.bad = 0
	if h.Version != s.terms.Version && (refusal == nil || refusal.Code != wire.ErrVers) {
		r.badMessage()
		s.fault = badReply("version %d, in answer to version %d", h.Version, s.terms.Version)
	} else if r.port.agree(h, refusal) {
		_, change := r.credits.Grant(h.Credits)
		r.stats.credits.Add(int64(change))
	}
	return s
}

// replied hands a reply, which is in l.scratch, to its call and returns the receive buffer that is free
// for it. r.mu is held.
func (r *requester) replied(h wire.Header, m arrived) (free int) {
	s := r.answered(h, nil)
	if s == nil {
		return m.buf
	}
	if s.state != slotWaiting {
		if r.corner != nil {
			r.corner.tooLate(s, &r.scratch)
		}
		r.late(s)
		return m.buf
	}
	s.reply, r.scratch = r.scratch, s.reply
	free, s.buf = s.buf, m.buf
	s.headerLen, s.replyLen, s.layout = m.header, m.len, received{padding: m.padding}
	s.state = slotReplied
	r.wakeLater(s)
	return free
}

// wakeLater has the caller of s wake once the receives are posted again. The turn is not passed to it any more: it
// would have no use for it. r.mu is held.
func (r *requester) wakeLater(s *slot) {
	r.rested(s)
	r.wakeups = append(r.wakeups, s)
}

// late handles the reply to a call that was given up: its credit is free now.
// r.mu is held.
func (r *requester) late(s *slot) {
	if s.state == slotAbandoned {
		s.state = slotLate
		return
	}
	if s.sending {
		s.state = slotDraining
		return
	}
	if r.corner != nil && r.corner.owes(s) {
		s.state = slotReplied // once more would be too often
		r.corner.owed(s)
		return
	}
	r.putSlot(s)
	r.released++
}

// badMessage counts a message of no use. r.mu is held.
func (r *requester) badMessage() {
	r.stats.badReplies.Add(1)
	r.bad++
}

// invalidated marks the key that a Send with Invalidate named: one of the call
// it answers, or, from a responder that errs, of any other. r.mu is held.
func (r *requester) invalidated(xid, rkey uint32) {
	if s := r.slots[xid]; s != nil && s.kill(rkey) {
		r.stats.remoteInvalidations.Add(1)
		return
	}
	for _, s := range r.slots {
		if s.kill(rkey) {
			r.stats.remoteInvalidations.Add(1)
			return
		}
	}
}

// kill marks a key of s as dead and reports whether there is one. requester.mu is held.
func (s *slot) kill(rkey uint32) bool {
	for i := range s.keys {
		if k := &s.keys[i]; k.rkey == rkey && !k.dead {
			k.dead = true
			return true
		}
	}
	return false
}
