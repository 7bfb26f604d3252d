package rpcrdma

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// stall ends a link whose peer takes no data for too long. A goroutine that posts, or waits for a completion, sets a
// deadline, and clears it when it is done. One timer checks the deadlines of all calls: one timer per call would cost more
// than the rest of posting.
type stall struct {
	l *link
	// next is when the timer fires, in nanoseconds since base, or 0 when it does not run.
	next atomic.Int64
	base time.Time

	mu    sync.Mutex // held while next and the timer are changed
	timer *time.Timer
}

// deadline is one of those that a stall looks at, in nanoseconds since its base, or 0 for none.
type deadline struct{ at atomic.Int64 }

func (s *stall) start(l *link) {
	s.l, s.base = l, time.Now()
	s.timer = time.AfterFunc(time.Hour, s.look)
	s.timer.Stop()
}

// set makes d a deadline of StallLimit. If ctx has a deadline, ours is at most a second after it.
func (s *stall) set(ctx context.Context, d *deadline) {
	limit := s.l.d.cfg.StallLimit
	if t, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(t), 0)+time.Second)
	}
	at := int64(time.Since(s.base) + limit)
	d.at.Store(at)
	s.lookAt(at)
}

func (d *deadline) clear() { d.at.Store(0) }

// lookAt makes the timer fire at that time, unless it fires earlier.
func (s *stall) lookAt(at int64) {
	sooner := func() bool { next := s.next.Load(); return next != 0 && next <= at }
	if sooner() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sooner() {
		s.next.Store(at)
		s.timer.Reset(time.Duration(at) - time.Since(s.base))
	}
}

// look runs when the timer fires.
func (s *stall) look() {
	s.mu.Lock()
	s.next.Store(0)
	s.mu.Unlock()
	now, first := int64(time.Since(s.base)), int64(0)
	see := func(d *deadline) {
		if at := d.at.Load(); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	for i := range s.l.all {
		see(&s.l.all[i].deadline)
	}
	for i := range s.l.back {
		see(&s.l.back[i].out.deadline)
	}
	switch {
	case first == 0: // the next set starts the timer again
	case first <= now:
		s.l.fail(errStalled)
	default:
		s.lookAt(first)
	}
}
