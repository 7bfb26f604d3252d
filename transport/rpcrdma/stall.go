package rpcrdma

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// stall ends a link whose peer takes nothing for too long. Whoever posts, or waits for a completion, sets a deadline and
// takes it back. One timer looks at all of them: to start one for each call costs more than the rest of posting does.
type stall struct {
	l *link
	// next is when the timer looks, in nanoseconds since base, or 0 when it does not run.
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

// set makes d a deadline of StallLimit. When ctx has one, the patience beyond that is short.
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

// lookAt has the timer look at that time, unless it looks before.
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

// look is the timer's.
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
		see(&s.l.back[i].deadline)
	}
	switch {
	case first == 0: // who sets one from now on finds that the timer does not run
	case first <= now:
		s.l.fail(errStalled)
	default:
		s.lookAt(first)
	}
}
