package rpcrdma

import (
	"errors"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// control is what of a connection is for messages of version 2 besides calls and replies, and for its properties. One that
// does not try version 2 has none.
type control struct {
	c *connection
	// id is that of its Sends.
	id uint64
	// due has a token when messages are due, sent when the one in buf has gone out.
	due, sent chan struct{}
	buf       mem.Seg
	ended     chan struct{} // closed when run has ended
	props     *props
}

func newControl(c *connection, id uint64, buf mem.Seg) *control {
	cfg := &c.d.cfg
	return &control{
		c: c, id: id, due: make(chan struct{}, 1), sent: make(chan struct{}, 1), buf: buf, ended: make(chan struct{}),
		props: newProps(len(c.bufs), cfg.receiveSize(), cfg.InlineSend, backwardSupport(cfg.Callbacks != nil)),
	}
}

// wake makes run look for messages that are due.
func (c *control) wake() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// run sends what the reaper finds to be due: properties, and errors that
// answer the peer's requests. dial starts it, Close joins it through ended.
func (c *control) run() {
	defer close(c.ended)
	for {
		select {
		case <-c.due:
		case <-c.c.done:
			return
		}
		for m := c.props.next(); m != nil; m = c.props.next() {
			if err := c.send(m); err != nil {
				c.c.Fail(err)
				return
			}
		}
	}
}

// send sends m and waits until it has gone out.
func (c *control) send(m wire.Message) error {
	l, h := c.c, m.Fixed()
	h.Credits = uint32(l.d.cfg.Credits)
	if h.Proc == wire.ProcError {
		// It answers a call of the peer's and has the grant of that direction.
		h.Credits = uint32(max(1, l.d.cfg.CallbackCredits))
	}
	b := wire.Encode(c.buf.Bytes(), m)
	l.turn.Expect()
	defer l.turn.Unexpect()
	wr := []verbs.SendWR{{ID: c.id, Op: verbs.OpSend, Signaled: true, Local: mem.Vec{c.buf.Slice(0, len(b))}}}
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
	case <-c.sent:
	case <-l.done:
		return errLinkDead
	}
	l.d.stats.Sent.Add(uint64(len(b)))
	c.props.sent(m)
	l.mu.Lock()
	l.noteTerms()
	l.mu.Unlock()
	return nil
}

// received2 takes a message of version 2 that is no call and no reply to one. The batch is begun.
func (l *link) received2(m wire.Message) {
	l.heard(m.Fixed())
	if o, ok := m.(*wire.Optional); ok {
		l.batch.Useless()
		if o.Direction == wire.DirCall { // none is known here
			l.breach(l.control.props.answer(refusal2(o.XID, wire.ErrInvalOption, wire.Fault{})))
		}
	} else {
		l.batch.Useful()
		l.breach(l.control.props.received(m))
		l.mu.Lock()
		l.noteTerms()
		l.mu.Unlock()
	}
	l.control.wake()
}

func refusal2(xid uint32, code wire.ErrCode, f wire.Fault) *wire.Error {
	return &wire.Error{Header: wire.Header{XID: xid, Version: Version2, Proc: wire.ProcError}, Code: code, Fault: f}
}

// owedError2 reports whether e is of a message of version 2 that may be answered with an error: of one of an unknown
// type nothing says that it is no reply.
func owedError2(e *wire.ParseError) bool {
	return e.Header.Version == Version2 && e.Answer != 0 && e.Answer != wire.ErrVers && e.Answer != wire.ErrInvalProc
}

// refuse2 answers a request of the peer's whose header cannot be parsed. The batch is begun.
func (l *link) refuse2(e *wire.ParseError) {
	if !owedError2(e) {
		return
	}
	l.breach(l.control.props.answer(refusal2(e.Header.XID, e.Answer, e.Fault)))
	l.control.wake()
}

// breach ends the link when the reaper is done with its batch, if err is not nil.
func (l *link) breach(err error) {
	if err != nil && l.broken == nil {
		l.broken = err
	}
}
