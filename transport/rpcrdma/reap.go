package rpcrdma

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/verbs"
)

// runReaper takes completions until the connection ends. Of replies it reads
// the header, finds the call and gives it the receive buffer; the rest is the
// caller's work. It never waits for anything but completions. Link.Close joins
// it through l.quiet.
func (l *link) runReaper() {
	defer close(l.quiet)
	var wc [64]verbs.Completion
	for {
		n, err := l.conn.Wait(context.Background(), wc[:])
		l.mu.Lock()
		for i := range wc[:n] {
			l.reap(&wc[i])
		}
		tooBad, broken := l.bad > maxBad, l.broken
		l.mu.Unlock()
		if err == nil {
			err = l.afterBatch()
		}
		l.tellRoom()
		if err == nil && tooBad {
			err = errGarbage
		}
		if err == nil {
			err = broken
		}
		if err != nil {
			l.fail(err)
			// Close may be under way in fail elsewhere; here it returns when
			// no memory is touched any more.
			_ = l.conn.Close()
			l.gaveUp()
			l.d.stats.credits.Add(-int64(l.credits.current()))
			return
		}
	}
}

// afterBatch posts the receives again before anyone is told of a reply: the
// next call must not go out before there is room for its reply.
func (l *link) afterBatch() error {
	var err error
	if len(l.repost) > 0 {
		_, err = l.conn.PostRecv(l.repost)
		l.repost = l.repost[:0]
	}
	for _, s := range l.wakeups {
		s.wake()
	}
	l.wakeups = l.wakeups[:0]
	for ; l.released > 0; l.released-- {
		l.credits.releaseOf(abandoned)
	}
	return err
}

// reap handles one completion. l.mu is held.
func (l *link) reap(c *verbs.Completion) {
	switch {
	case c.Op == verbs.OpRecv:
		l.received(c)
	case c.ID == l.controlID():
		l.ctlSent <- struct{}{}
	default:
		i := int(c.ID >> 1)
		if i >= len(l.all) {
			select {
			case l.back[i-len(l.all)].sent <- struct{}{}:
			default: // the link ends, and nobody waited for the one before
			}
			return
		}
		s := &l.all[i]
		switch {
		case c.ID&1 != 0:
			s.invalidating = false
		case c.Op == verbs.OpRead:
			s.reading--
		default:
			s.sending = false
		}
		l.wakeups = append(l.wakeups, s)
	}
}

// received handles one message. Its buffer is posted again, or exchanged for
// the one that the slot of its call had. l.mu is held.
func (l *link) received(c *verbs.Completion) {
	buf := int(c.ID)
	b := l.bufs[buf].Bytes()[:c.Len]
	l.d.stats.received.Add(uint64(c.Len))
	n, err := parseHeader(b, &l.scratch, l.accepted())
	h := &l.scratch
	if l.props.took(buf) {
		l.kick()
	}
	if c.Invalidated {
		l.invalidated(h.XID, c.InvalidatedKey)
	}
	switch {
	case err != nil:
		l.refuse(b, err)
	case l.received2(h):
	case h.Proc == Done:
		l.badMessage() // discarded without answer (RFC 8166 section 4.6)
	case reverseCall(h, b[n:]) && !l.pullable(h):
		if l.callBack(arrival{buf, c.Len}) {
			return
		}
	default:
		buf = l.replied(h, buf, n, c.Len)
	}
	l.repost = append(l.repost, l.receive(buf))
}

// callBack hands a call of the server's to who serves it. Unless we said that we
// do, which is for the protocol above to say, no server may make any (RFC 8167
// section 6): they are counted and not answered. Nor are those beyond the
// credits. l.mu is held.
func (l *link) callBack(a arrival) bool {
	select {
	case l.calledBack <- a:
		return true
	default:
		l.d.stats.badReplies.Add(1)
		return false
	}
}

// reverseCall tells whether a message is a call from the responder (RFC 8167).
// Read lists do not occur in replies.
func reverseCall(h *Header, body []byte) bool {
	if h.Version == Version2 {
		return h.Proc != Error && h.Direction == DirCall
	}
	switch h.Proc {
	case Msg, MsgP:
		_, reply, ok := oncrpc.PeekXID(body)
		return ok && !reply
	case NoMsg:
		return len(h.Lists.Read) > 0
	}
	return false
}

// pullable tells whether a message with a read list is a reply, for replies by
// read chunks are allowed and a call waits for one.
func (l *link) pullable(h *Header) bool {
	s := l.slots[h.XID]
	return s != nil && s.terms.ReadReplies && h.Proc == NoMsg
}

// replied hands a reply to its call and returns the receive buffer that is free
// for it. l.mu is held.
func (l *link) replied(h *Header, buf, headerLen, replyLen int) (free int) {
	s := l.slots[h.XID]
	if s == nil || s.state == slotReplied || s.state == slotLate {
		l.d.stats.badXIDs.Add(1)
		l.bad++
		return buf
	}
	l.bad = 0
	if h.Version != s.terms.Version && !(h.Proc == Error && h.Err == ErrVers) {
		l.badMessage()
		s.fault = badReply("version %d, in answer to version %d", h.Version, s.terms.Version)
	} else if l.agree(h) {
		_, change := l.credits.grant(h.Credits)
		l.d.stats.credits.Add(int64(change))
	}
	if s.state != slotWaiting {
		s.owing = s.terms.ReadReplies && len(h.Lists.Read) > 0
		l.late(s)
		return buf
	}
	s.reply, l.scratch = l.scratch, s.reply
	free, s.buf = s.buf, buf
	s.headerLen, s.replyLen = headerLen, replyLen
	s.state = slotReplied
	l.wakeups = append(l.wakeups, s)
	return free
}

// late handles the reply to a call that was given up: its credit is free now.
// l.mu is held.
func (l *link) late(s *slot) {
	if s.state == slotAbandoned {
		s.state = slotLate
		return
	}
	if s.owing {
		s.state = slotReplied // once more would be too often
		l.undone <- s
		return
	}
	l.putSlot(s)
	l.released++
}

// refuse handles a message whose header cannot be parsed. Nothing of one
// shorter than the shortest header with lists (RFC 8166 section 4.5), or, in
// version 2, than an error, is believed; otherwise the call that it names, if any,
// fails, unless it is said to be a call itself. l.mu is held.
func (l *link) refuse(b []byte, err error) {
	l.badMessage()
	var he *HeaderError
	if !errors.As(err, &he) {
		return
	}
	s := l.slots[he.XID]
	if s == nil || owedError2(he) && l.scratch.Direction == DirCall {
		l.refuse2(he)
		return
	}
	if len(b) < EmptyHeaderLen && (he.Version != Version2 || len(b) < errorLen2) {
		return
	}
	switch s.state {
	case slotWaiting:
		s.fault, s.state = err, slotReplied
		l.wakeups = append(l.wakeups, s)
	case slotAbandoned, slotDetached:
		l.late(s)
	}
}

// badMessage counts a message of no use. l.mu is held.
func (l *link) badMessage() {
	l.d.stats.badReplies.Add(1)
	l.bad++
}

// invalidated marks the key that a Send with Invalidate named: one of the call
// it answers, or, from a responder that errs, of any other. l.mu is held.
func (l *link) invalidated(xid, rkey uint32) {
	if s := l.slots[xid]; s != nil && s.kill(rkey) {
		l.d.stats.remoteInvalidations.Add(1)
		return
	}
	for _, s := range l.slots {
		if s.kill(rkey) {
			l.d.stats.remoteInvalidations.Add(1)
			return
		}
	}
}

// kill marks a key of s as dead and tells if there is one. link.mu is held.
func (s *slot) kill(rkey uint32) bool {
	for i := range s.keys {
		if k := &s.keys[i]; k.rkey == rkey && !k.dead {
			k.dead = true
			return true
		}
	}
	return false
}
