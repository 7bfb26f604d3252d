package requester

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/verbs"
)

// How callers wait: package turn says who of them receives.

// rest waits until something has happened to s. It returns true if nothing has, and nothing is to be waited for:
// ctx or the connection has ended. The caller calls rested afterwards, and leave when it waits no more.
func (r *Requester) rest(ctx context.Context, s *slot) (over bool) {
	w := &s.waiter
	switch {
	case r.turn == nil:
	case s.bulk():
		r.turn.Expect()
		defer r.turn.Unexpect()
	default:
		if r.turn.Follow(w) {
			return r.lead(ctx, s)
		}
	}
	select {
	case <-w.Woke:
		return false
	case <-ctx.Done():
	case <-r.done:
	}
	return true
}

// maxLed is the most data of a reply whose caller receives it, in bytes. Nobody takes from the connection while one leader
// wakes the next, which slows a stream of data down: that is the reaper's.
const maxLed = 16 << 10

// bulk reports whether the reply to s may bring more than maxLed.
func (s *slot) bulk() bool {
	n := 0
	for _, it := range s.shape.Recv {
		n += it.Len
	}
	return n > maxLed
}

// lead is rest for who has the turn.
func (r *Requester) lead(ctx context.Context, s *slot) (over bool) {
	for {
		select {
		case <-s.waiter.Woke:
			return false
		default:
		}
		if err := r.receive(ctx); err != nil {
			return true
		}
	}
}

// rested ends what rest has begun, but for the turn. r.mu is held.
func (r *Requester) rested(s *slot) {
	if r.turn != nil {
		r.turn.Unlist(&s.waiter)
	}
}

// leave gives up the turn of s, if it has it.
func (r *Requester) leave(s *slot) {
	if r.turn != nil {
		r.turn.Leave(&s.waiter)
	}
}

// IsLoss reports whether err says that the connection is dead.
func IsLoss(err error) bool {
	var ce *verbs.ConnError
	return errors.As(err, &ce) || errors.Is(err, verbs.ErrClosed)
}
