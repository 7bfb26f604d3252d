package rpctest

import (
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// Clock is a reconnect.Clock that stands still until it is advanced.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*clockTimer]time.Time
}

type clockTimer struct {
	c *Clock
	f func()
}

func newClock() *Clock {
	return &Clock{now: time.Unix(1e9, 0), timers: map[*clockTimer]time.Time{}}
}

// Now implements reconnect.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements reconnect.Clock.
func (c *Clock) AfterFunc(d time.Duration, f func()) reconnect.Timer {
	t := &clockTimer{c, f}
	t.Reset(d)
	return t
}

func (t *clockTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	_, ok := t.c.timers[t]
	delete(t.c.timers, t)
	return ok
}

func (t *clockTimer) Reset(d time.Duration) bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	_, ok := t.c.timers[t]
	t.c.timers[t] = t.c.now.Add(d)
	return ok
}

// advance moves the clock and runs what is due.
func (c *Clock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*clockTimer
	for t, at := range c.timers {
		if !at.After(c.now) {
			due = append(due, t)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, t := range due {
		t.f()
	}
}
