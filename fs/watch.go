package fs

import (
	"context"
	"sync"
	"time"
)

// watch looks after the requests that wait, all with one goroutine: to start
// and wake one for each request costs more than the rest of what fs does for
// it. So that a kill is noticed a little later.
type watch struct {
	judge  func(tid uint32) verdict
	joined sync.WaitGroup
	wake   chan struct{} // holds a token when active was set

	mu     sync.Mutex
	ops    []*opContext
	writes int   // how many of them hold a WRITE's buffer
	active bool  // runWatch looks at ops, or is about to
	err    error // the mount was torn down
}

// verdict is what can be said of a thread that was interrupted.
type verdict uint8

const (
	goesOn verdict = iota
	dying
	unseen // it is outside our pid namespace, or not shown to us
)

const (
	// watchTick is how often the requests that wait are looked at.
	watchTick = 50 * time.Millisecond
	// killPoll is how often a request that was interrupted without being killed
	// looks whether its process is being killed by now: the kernel sends one
	// interrupt a request and no second one for a later, fatal signal.
	killPoll = time.Second
	// unseenGrace is how long a request goes on after an interrupt whose reason
	// cannot be seen. It then fails with EINTR, lest a killed process wait for a dead
	// server for ever; but any other signal has that effect too, down to those by
	// which a Go program preempts itself, so that a server that answers at all must
	// not be given up.
	unseenGrace = 5 * time.Second
	// crowd is how many WRITEs must wait for each of them to be looked at without
	// an interrupt: with maxRequestBytes under way the kernel's interrupts are
	// not read. It is a quarter of what that allows, with 1 MiB each.
	crowd = maxRequestBytes >> 20 / 4
)

// start starts the watch. It ends with ctx, and every request's context with
// it.
func (w *watch) start(ctx context.Context, judge func(tid uint32) verdict) {
	w.judge = judge
	w.wake = make(chan struct{}, 1)
	w.joined.Go(func() { w.runWatch(ctx) })
}

// add has c watched, unless it is or has ended; mu is held.
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
	if !w.active {
		w.active = true
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// remove ends the watching of c; mu is held.
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
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.end(errAborted)
			return
		case <-w.wake:
			tick.Reset(watchTick)
		case now := <-tick.C:
			if !w.poll(now) {
				tick.Stop()
			}
		}
	}
}

// poll cancels the requests whose process is being killed, or may be for all
// that can be seen, and tells whether any are left to be watched.
func (w *watch) poll(now time.Time) bool {
	for _, c := range w.due(now) {
		v := w.judge(c.pid)
		w.mu.Lock()
		switch {
		case c.ended || c.err != nil:
		case v == goesOn, v == unseen && !c.interrupted:
			c.blind = false
		case v == unseen && !c.blind:
			c.blind, c.look = true, now.Add(unseenGrace)
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

// due is the requests whose process is to be looked at.
func (w *watch) due(now time.Time) (due []*opContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.ops {
		if !c.interrupted {
			select {
			case <-c.cancel:
				c.interrupted, c.look = true, now
			default:
			}
		}
		unread := c.write && w.writes >= crowd
		if (c.interrupted || unread) && !now.Before(c.look) {
			c.look = now.Add(killPoll)
			due = append(due, c)
		}
	}
	return due
}

// end cancels every request, those to come too.
func (w *watch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	for _, c := range w.ops {
		c.finish(err)
	}
	w.ops, w.writes = nil, 0
}
