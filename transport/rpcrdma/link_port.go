package rpcrdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// How a link implements port: posting and memory. version.go has the rest.

// post posts s.wrs. While the send queue is full it waits until the reaper has
// got something, or until stop, which is ctx's or nil. A peer that takes nothing
// off the wire for too long costs the link.
func (l *link) post(ctx context.Context, s *sender, stop <-chan struct{}) (posted int, err error) {
	l.stall.set(ctx, &s.deadline)
	defer s.deadline.clear()
	posted, err = l.conn.PostSend(s.wrs)
	if errors.Is(err, verbs.ErrQueueFull) {
		l.turn.Expect()
		defer l.turn.Unexpect()
	}
	for errors.Is(err, verbs.ErrQueueFull) {
		room := l.awaitRoom()
		var n int
		n, err = l.conn.PostSend(s.wrs[posted:])
		posted += n
		if !errors.Is(err, verbs.ErrQueueFull) {
			break
		}
		select {
		case <-room:
		case <-stop:
			return posted, ctx.Err()
		case <-l.done:
			return posted, errLinkDead
		}
	}
	return posted, err
}

// awaitRoom returns a channel that is closed when the reaper has got something.
func (l *link) awaitRoom() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room == nil {
		l.room = make(chan struct{})
	}
	return l.room
}

// tellRoom wakes the callers that wait for room in the send queue. l.mu is held.
func (l *link) tellRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// lend leases n bytes of the dialer's long buffers.
func (l *link) lend(ctx context.Context, n int) (mem.Seg, error) {
	seg, err := l.long.Lease(ctx, l.done, &l.d.longAcct, n)
	switch {
	case errors.Is(err, longbuf.ErrTooLarge):
		return mem.Seg{}, &tooLongError{need: n, have: l.d.longAcct.Limit}
	case errors.Is(err, longbuf.ErrEnded):
		return mem.Seg{}, errLinkDead
	}
	return seg, err
}

func (l *link) giveBack(s mem.Seg) { l.long.Release(&l.d.longAcct, s) }

func (l *link) newWindow() (verbs.Window, error) { return l.conn.NewWindow() }

func (l *link) buffer(i int) []byte { return l.bufs[i].Bytes() }

// tooLongError says that a message needs more than there ever is.
type tooLongError struct{ need, have int }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes exceeds the %d there are for long messages", e.need, e.have)
}
