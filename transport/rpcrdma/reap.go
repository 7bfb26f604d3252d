package rpcrdma

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// runReaper takes completions while no caller does, until the connection ends.
// Link.Close joins it through l.quiet.
func (l *link) runReaper() {
	defer close(l.quiet)
	a := l.turn.Attendant()
	for a.Take(l.done) {
		for keep := true; keep; {
			callers, err := l.take(l.conn.Wait(context.Background(), l.wc[:]))
			if err != nil {
				a.Leave()
				break
			}
			keep = a.Next(callers)
		}
	}
	// Another goroutine may be closing it, in Fail; here Close returns when
	// no memory is touched any more.
	_ = l.conn.Close()
	a.End()
	l.gaveUp()
	l.d.stats.Granted.Add(-int64(l.Credits().Current()))
}

// take handles the n completions in l.wc, and err, which came with them. Of replies it reads
// the header, finds the call and gives it the receive buffer; the rest is the
// caller's work. It never waits for anything. It reports whether some were of callers; its error is why the
// link has ended.
func (l *link) take(n int, err error) (callers bool, _ error) {
	l.batch.Begin()
	for i := range l.wc[:n] {
		l.reap(&l.wc[i])
	}
	callers, useless := l.batch.End()
	l.wakeForRoom()
	if err == nil {
		err = l.afterBatch()
	}
	if err == nil {
		err = useless
	}
	if err == nil {
		err = l.broken
	}
	if err != nil {
		l.Fail(err)
	}
	return callers, err
}

// afterBatch posts the receives again before the caller of a reply wakes: the
// next call must not go out before there is room for its reply.
func (l *link) afterBatch() error {
	var err error
	if len(l.repost) > 0 {
		_, err = l.conn.PostRecv(l.repost)
		l.repost = l.repost[:0]
	}
	l.batch.Wake()
	return err
}

// reap handles one completion. The batch is begun.
func (l *link) reap(c *verbs.Completion) {
	switch {
	case c.Op == verbs.OpRecv:
		l.received(c)
	case c.ID < l.IDs():
		l.batch.Completed(c.ID, c.Op)
	case l.control != nil && c.ID == l.control.id:
		l.control.sent <- struct{}{}
	default:
		select {
		case l.back[c.ID-l.IDs()].sent <- struct{}{}:
		default: // the link ends, and nobody waited for the one before
		}
	}
}

// received handles one message. Its buffer is posted again, or exchanged for
// the one that the slot of its call had. The batch is begun.
func (l *link) received(c *verbs.Completion) {
	buf := int(c.ID)
	b := l.bufs[buf].Bytes()[:c.Len]
	l.d.stats.Received.Add(uint64(c.Len))
	h, err := wire.ParseHeader(b, l.accepted())
	if l.control != nil && l.control.props.took(buf) {
		l.control.wake()
	}
	if c.Invalidated {
		l.batch.Invalidated(h.XID, c.InvalidatedKey)
	}
	taken := false
	if err == nil {
		buf, taken, err = l.sort(h, buf, b)
	}
	if err != nil {
		l.refuse(b, err)
	}
	if !taken {
		l.repost = append(l.repost, l.receive(buf))
	}
}

// sort parses the message b in receive buffer buf, which has the Header h, and gives it to whom it concerns. It
// returns the buffer to be posted in its place, unless that was taken. The batch is begun.
func (l *link) sort(h wire.Header, buf int, b []byte) (free int, taken bool, err error) {
	m := requester.Arrived{Buf: buf, Len: len(b)}
	switch h.Proc {
	case wire.ProcMsg, wire.ProcNoMsg:
		m.Header, err = l.scratch.Parse(b)
	case wire.ProcMsgP:
		m.Header, m.Padding, err = rfc5666.Parse(&l.scratch, b)
	case wire.ProcDone:
		l.batch.Useless() // discarded without answer (RFC 8166 section 4.6)
		return buf, false, nil
	case wire.ProcError:
		return buf, false, l.refused(b)
	default:
		other, _, err := wire.Parse(b, AllVersions)
		if err == nil {
			l.received2(other)
		}
		return buf, false, err
	}
	switch {
	case err != nil:
		return buf, false, err
	case reverseCall(&l.scratch, b[m.Header:]) && !l.batch.ByReadChunks(&l.scratch):
		return buf, l.callBack(m), nil
	}
	return l.batch.Replied(&l.scratch, m), false, nil
}

// refused handles an error. The batch is begun.
func (l *link) refused(b []byte) error {
	var e wire.Error
	if _, err := e.Parse(b); err != nil {
		return err
	}
	if e.Version == Version2 && !l.batch.Known(e.XID) && l.control.props.refused(e.XID) {
		l.control.wake()
		return nil
	}
	l.batch.Errored(&e)
	return nil
}

// callBack queues a call of the server's for runBack, and reports whether that took its buffer. Unless we said
// that we do, which is for the protocol above to say, no server may make any (RFC 8167 section 6): they are counted and
// not answered. Nor are those beyond the credits. The batch is begun.
func (l *link) callBack(m requester.Arrived) bool {
	select {
	case l.calledBack <- call{Arrived: m, hdr: l.scratch}:
		l.scratch = wire.Msg{}
		return true
	default:
		l.d.stats.BadReplies.Add(1)
		return false
	}
}

// reverseCall reports whether a message is a call from the responder (RFC 8167).
// Read lists do not occur in replies.
func reverseCall(m *wire.Msg, body []byte) bool {
	if m.Version == Version2 {
		return m.Direction == wire.DirCall
	}
	if m.Proc == wire.ProcNoMsg {
		return len(m.Lists.Read) > 0
	}
	_, reply, ok := oncrpc.PeekXID(body)
	return ok && !reply
}

// refuse handles a message whose header cannot be parsed. Nothing of one
// shorter than the shortest header with lists (RFC 8166 section 4.5), or, in
// version 2, than an error, is believed; otherwise the call that it names, if any,
// fails, unless it is said to be a call itself. The batch is begun.
func (l *link) refuse(b []byte, err error) {
	l.batch.Useless()
	var he *wire.ParseError
	if !errors.As(err, &he) {
		return
	}
	if !l.batch.Known(he.Header.XID) || owedError2(he) && he.Direction == wire.DirCall {
		l.refuse2(he)
		return
	}
	if len(b) < wire.EmptyLen1 && (he.Header.Version != Version2 || len(b) < wire.ErrorLen2) {
		return
	}
	l.batch.Garbled(he.Header.XID, err)
}

// waiting is the context with which all leaders of a link call Wait in turn: one of their own each would have to be watched
// anew each time. To end it interrupts the leader.
type waiting struct {
	ctx context.Context
	end context.CancelFunc
}

func newWaiting() *waiting {
	w := &waiting{}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// interrupt makes the leader look at its own context.
func (l *link) interrupt() { l.waiting.Swap(newWaiting()).end() }

// receiveNext receives for a caller that has the turn.
func (l *link) receiveNext(ctx context.Context) error {
	wait := l.waiting.Load().ctx
	n, err := l.conn.Wait(wait, l.wc[:])
	if n == 0 && wait.Err() != nil && !requester.IsLoss(err) {
		return ctx.Err()
	}
	_, err = l.take(n, err)
	return err
}
