package stall

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Watch has the deadlines of one connection.
type Watch struct {
	limit     time.Duration
	end       func()
	deadlines []*Deadline
	// next is when the timer fires, in nanoseconds since base, or 0 when it does not run.
	next atomic.Int64
	base time.Time

	mu    sync.Mutex // held while next and the timer are changed
	timer *time.Timer
}

// Deadline is the time until which one goroutine waits for the peer, in nanoseconds since the base of its Watch, or 0 for
// none.
type Deadline struct{ at atomic.Int64 }

// New returns a watch without deadlines, which calls end when one has passed. Nobody waits for longer than limit.
func New(limit time.Duration, end func()) *Watch {
	w := &Watch{limit: limit, end: end, base: time.Now()}
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Stop()
	return w
}

// Add makes d one of the deadlines of w. It is called before the first Set.
func (w *Watch) Add(d *Deadline) { w.deadlines = append(w.deadlines, d) }

// Set sets d to the limit from now. If ctx has a deadline, d is at most a second after it.
func (w *Watch) Set(ctx context.Context, d *Deadline) {
	limit := w.limit
	if t, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(t), 0)+time.Second)
	}
	at := int64(time.Since(w.base) + limit)
	d.at.Store(at)
	w.lookAt(at)
}

// Clear ends what Set has begun.
func (d *Deadline) Clear() { d.at.Store(0) }

// Stop stops the timer. Deadlines that are set later start it again.
func (w *Watch) Stop() { w.timer.Stop() }

// lookAt makes the timer fire at that time, unless it fires earlier.
func (w *Watch) lookAt(at int64) {
	sooner := func() bool { next := w.next.Load(); return next != 0 && next <= at }
	if sooner() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !sooner() {
		w.next.Store(at)
		w.timer.Reset(time.Duration(at) - time.Since(w.base))
	}
}

// look runs when the timer fires.
func (w *Watch) look() {
	w.mu.Lock()
	w.next.Store(0)
	w.mu.Unlock()
	now, first := int64(time.Since(w.base)), int64(0)
	for _, d := range w.deadlines {
		if at := d.at.Load(); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	switch {
	case first == 0: // the next Set starts the timer again
	case first <= now:
		w.end()
	default:
		w.lookAt(first)
	}
}
