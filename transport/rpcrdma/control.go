package rpcrdma

import (
	"errors"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// What of the requester is for messages of version 2 besides calls and replies.

// controlID is that of Sends of runControl.
func (l *link) controlID() uint64 { return uint64(len(l.all)+len(l.back)) << 1 }

// kick tells runControl that messages are due.
func (l *link) kick() {
	select {
	case l.ctl <- struct{}{}:
	default:
	}
}

// runControl sends what the reaper finds to be due: properties, and errors that
// answer the peer's requests. dial starts it, Close joins it through l.control.
func (l *link) runControl() {
	defer close(l.control)
	for {
		select {
		case <-l.ctl:
		case <-l.done:
			return
		}
		for {
			h, ok := l.props.next()
			if !ok {
				break
			}
			if err := l.sendControl(&h); err != nil {
				l.fail(err)
				return
			}
		}
	}
}

// sendControl sends h and waits until it has gone out.
func (l *link) sendControl(h *Header) error {
	h.Credits = uint32(l.credits.requested)
	if h.Proc == Error {
		// It answers a call of the peer's and has the grant of that direction.
		h.Credits = uint32(max(1, l.d.cfg.CallbackCredits))
	}
	b := h.encode(l.ctlBuf.Bytes())
	wr := []verbs.SendWR{{ID: l.controlID(), Op: verbs.OpSend, Signaled: true, Local: mem.Vec{l.ctlBuf.Slice(0, len(b))}}}
	for {
		room := l.awaitRoom()
		_, err := l.conn.PostSend(wr)
		if err == nil {
			break
		}
		if !errors.Is(err, verbs.ErrQueueFull) {
			return err
		}
		select {
		case <-room:
		case <-l.done:
			return errLinkDead
		}
	}
	select {
	case <-l.ctlSent:
	case <-l.done:
		return errLinkDead
	}
	l.d.stats.sent.Add(uint64(len(b)))
	l.props.sent(h)
	l.mu.Lock()
	l.d.noteTerms(l)
	l.mu.Unlock()
	return nil
}

// received2 takes a message of version 2 that is no call and no reply to one,
// and tells whether it was one. l.mu is held.
func (l *link) received2(h *Header) bool {
	if h.Version != Version2 {
		return false
	}
	switch h.Proc {
	case ConnProp, ReqProp, ResProp, UpdProp:
		l.heard(h)
		l.bad = 0
		l.breach(l.props.received(h))
		l.d.noteTerms(l)
	case Optional:
		l.heard(h)
		l.badMessage()
		if h.Direction == DirCall { // none is known here
			l.breach(l.props.answer(Header{XID: h.XID, Version: Version2, Proc: Error, Err: ErrInvalOption}))
		}
	case Error:
		return l.slots[h.XID] == nil && l.props.refused(h.XID)
	default:
		return false
	}
	l.kick()
	return true
}

// owedError2 tells whether e is of a message of version 2 that may be answered
// with an error: of one of an unknown type nothing says that it is no reply.
func owedError2(e *HeaderError) bool {
	return e.Version == Version2 && e.Answer != 0 && e.Answer != ErrVers && e.Answer != ErrInvalProc
}

// refuse2 answers a request of the peer's whose header cannot be parsed. l.mu is
// held.
func (l *link) refuse2(e *HeaderError) {
	if !owedError2(e) {
		return
	}
	l.breach(l.props.answer(Header{XID: e.XID, Version: Version2, Proc: Error, Err: e.Answer, V2: V2{Fault: e.Fault}}))
	l.kick()
}

// breach ends the link when the reaper is done with its batch, if err is not nil.
// l.mu is held.
func (l *link) breach(err error) {
	if err != nil && l.broken == nil {
		l.broken = err
	}
}
