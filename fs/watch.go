package fs

import (
	"context"
	"sync"
	"time"
)

// watch polls all blocked requests from one goroutine. One goroutine per request
// would cost more than everything else fs does; the price is that a kill is noticed
// up to watchInterval late.
type watch struct {
	check  func(tid uint32) verdict
	joined sync.WaitGroup
	wake   chan struct{} // capacity 1: active was set

	mu     sync.Mutex
	ops    []*opContext
	writes int   // how many of them are WRITEs
	lossy  bool  // interrupts may be lost; see loseInterrupts
	active bool  // runWatch polls, or is about to
	slow   bool  // it polls at longer intervals, since nothing new has been blocked for a while
	err    error // the mount was torn down
}

// verdict is what is known of a thread that was interrupted.
type verdict uint8

const (
	running verdict = iota
	dying
	unseen // it is outside our pid namespace, or /proc hides it
)

const (
	// watchInterval is how often blocked requests are polled, maxWatchInterval how often when they have been blocked for long.
	watchInterval    = 50 * time.Millisecond
	maxWatchInterval = 8 * watchInterval
	// killPollInterval is how often the thread of an interrupted request is checked
	// again: the kernel sends one interrupt per request, and no second one for a
	// later, fatal signal.
	killPollInterval = time.Second
	// unseenTimeout is how long a request goes on after an interrupt if its thread
	// cannot be inspected. It then fails with EINTR, so that a killed process does not
	// wait for a dead server for ever. Any other signal has the same effect, down to
	// those by which a Go program preempts itself, so that the timeout must be longer
	// than what a server needs that answers at all.
	unseenTimeout = 5 * time.Second
	// crowdedWrites is how many WRITEs must be blocked for all of them to be checked
	// without an interrupt: go-fuse reads no interrupts while maxRequestBytes are
	// outstanding. It is a quarter of what that allows, at 1 MiB each.
	crowdedWrites = maxRequestBytes >> 20 / 4
)

// start starts the watch. When ctx ends, so does the watch, and every request's
// context with it.
func (w *watch) start(ctx context.Context, check func(tid uint32) verdict) {
	w.check = check
	w.wake = make(chan struct{}, 1)
	w.joined.Go(func() { w.runWatch(ctx) })
}

// add registers c, unless it is registered or has ended; mu is held.
func (w *watch) add(c *opContext) {
	if c.watched || c.ended {
		return
	}
	c.watched = true
	if w.err != nil {
		c.finish(w.err)
		return
	}
	c.at = len(w.ops)
	w.ops = append(w.ops, c)
	if c.write {
		w.writes++
	}
	if !w.active || w.slow {
		w.active, w.slow = true, false
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// remove unregisters c; mu is held.
func (w *watch) remove(c *opContext) {
	last := len(w.ops) - 1
	w.ops[c.at] = w.ops[last]
	w.ops[c.at].at = c.at
	w.ops[last] = nil
	w.ops = w.ops[:last]
	if c.write {
		w.writes--
	}
}

func (w *watch) runWatch(ctx context.Context) {
	interval := watchInterval
	tick := time.NewTicker(interval)
	defer tick.Stop()
	tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.end(errAborted)
			return
		case <-w.wake:
			interval = watchInterval
			tick.Reset(interval)
		case now := <-tick.C:
			switch {
			case !w.poll(now):
				tick.Stop()
			case interval < maxWatchInterval:
				interval *= 2
				tick.Reset(interval)
				w.slowDown()
			}
		}
	}
}

// poll cancels the requests whose process is being killed, or may be as far as can
// be seen, and reports whether any requests remain.
func (w *watch) poll(now time.Time) bool {
	for _, d := range w.due(now) {
		v, c := w.check(d.pid), d.c
		w.mu.Lock()
		switch {
		case c.turn != d.turn || c.err != nil: // it has ended, or was cancelled
		case v == running, v == unseen && !c.interrupted:
			c.unseen = false
		case v == unseen && !c.unseen:
			c.unseen, c.checkAt = true, now.Add(unseenTimeout)
		default:
			w.remove(c)
			c.finish(context.Canceled)
		}
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = len(w.ops) > 0
	return w.active
}

// slowDown notes that the next poll is later than watchInterval, unless somebody wakes the watch.
func (w *watch) slowDown() {
	w.mu.Lock()
	w.slow = w.active
	w.mu.Unlock()
}

// dueRequest is a request whose thread must be checked: that of c as long as c.turn is
// turn.
type dueRequest struct {
	c    *opContext
	turn uint64
	pid  uint32
}

// due returns the requests whose thread must be checked now.
func (w *watch) due(now time.Time) (due []dueRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.ops {
		if c.seen.IsZero() {
			c.seen = now
		}
		if !c.interrupted {
			select {
			case <-c.cancel:
				c.interrupted, c.checkAt = true, now
			default:
			}
		}
		if w.lossy && !c.interrupted && c.checkAt.IsZero() {
			c.checkAt = now.Add(killPollInterval)
		}
		unread := w.lossy || c.write && w.writes >= crowdedWrites // its interrupt may not be read
		if (c.interrupted || unread) && !now.Before(c.checkAt) {
			c.checkAt = now.Add(killPollInterval)
			due = append(due, dueRequest{c, c.turn, c.pid})
		}
	}
	return due
}

// loseInterrupts has the threads of all requests that are blocked for long checked
// without an interrupt. The kernel sends none for a signal that comes while it
// copies a request into a ring (Linux 6.18: request_wait_answer finds FR_SENT not
// set yet, and fuse_uring_prepare_send does not look for FR_INTERRUPTED after it has
// set that, as fuse_dev_do_read does).
func (w *watch) loseInterrupts() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lossy = true
}

// end cancels every request, including later ones.
func (w *watch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	for _, c := range w.ops {
		c.finish(err)
	}
	w.ops, w.writes = nil, 0
}
