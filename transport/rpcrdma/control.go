package rpcrdma

import (
	"errors"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
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
			m := l.props.next()
			if m == nil {
				break
			}
			if err := l.sendControl(m); err != nil {
				l.fail(err)
				return
			}
		}
	}
}

// sendControl sends m and waits until it has gone out.
func (l *link) sendControl(m wire.Message) error {
	h := m.Fixed()
	h.Credits = uint32(l.credits.requested)
	if h.Proc == wire.ProcError {
		// It answers a call of the peer's and has the grant of that direction.
		h.Credits = uint32(max(1, l.d.cfg.CallbackCredits))
	}
	b := wire.Encode(l.ctlBuf.Bytes(), m)
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
	l.props.sent(m)
	l.mu.Lock()
	l.d.noteTerms(l)
	l.mu.Unlock()
	return nil
}

// received2 takes a message of version 2 that is no call and no reply to one. l.mu is held.
func (l *link) received2(m wire.Message) {
	l.heard(m.Fixed())
	if o, ok := m.(*wire.Optional); ok {
		l.badMessage()
		if o.Direction == wire.DirCall { // none is known here
			l.breach(l.props.answer(refusal2(o.XID, wire.ErrInvalOption, wire.Fault{})))
		}
	} else {
		l.bad = 0
		l.breach(l.props.received(m))
		l.d.noteTerms(l)
	}
	l.kick()
}

func refusal2(xid uint32, code wire.ErrCode, f wire.Fault) *wire.Error {
	return &wire.Error{Header: wire.Header{XID: xid, Version: Version2, Proc: wire.ProcError}, Code: code, Fault: f}
}

// owedError2 reports whether e is of a message of version 2 that may be answered with an error: of one of an unknown
// type nothing says that it is no reply.
func owedError2(e *wire.ParseError) bool {
	return e.Header.Version == Version2 && e.Answer != 0 && e.Answer != wire.ErrVers && e.Answer != wire.ErrInvalProc
}

// refuse2 answers a request of the peer's whose header cannot be parsed. l.mu is held.
func (l *link) refuse2(e *wire.ParseError) {
	if !owedError2(e) {
		return
	}
	l.breach(l.props.answer(refusal2(e.Header.XID, e.Answer, e.Fault)))
	l.kick()
}

// breach ends the link when the reaper is done with its batch, if err is not nil.
// l.mu is held.
func (l *link) breach(err error) {
	if err != nil && l.broken == nil {
		l.broken = err
	}
}
