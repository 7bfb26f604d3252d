package credit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Credits limits the outstanding calls on one connection (RFC 8166 section
// 3.3.1): to one until the first reply, then to the latest grant, and never to
// more than was requested. A credit is held from before the call is sent
// until its reply has come, even when nobody waits for it any more: nothing
// else gives it back.
//
// Calls that the server may never answer must not take all there is. Overdue
// calls get a credit only after the first reply and leave a quarter of the
// Grant to live ones, which go first. Calls given up cannot be kept from the
// quarter, as they were live when they took their credit: when they reach into
// it and a live call has to wait, the connection must be replaced.
type Credits struct {
	// Requested is how many are asked for.
	Requested int

	// inForce is limit, once it is what a reply granted.
	inForce atomic.Int64

	mu      sync.Mutex
	limit   int
	granted bool // limit is what a reply granted
	used    int
	held    [shares]int // used, by share
	waiting [Overdue + 1][]chan struct{}
}

var (
	// ErrClogged: the credits are held by calls that nobody waits for and that the server does not answer.
	ErrClogged = errors.New("calls that were given up hold its credits")
	// ErrEnded: a wait ended with the connection.
	ErrEnded = errors.New("connection lost")
)

// Share says what a credit is held for.
type Share uint8

const (
	// Live: a call that has not been overdue.
	Live Share = iota
	// Overdue: a call that went unanswered before, on another connection.
	Overdue
	// Abandoned: a call that nobody waits for.
	Abandoned
	shares
)

func New(requested int) *Credits { return &Credits{Requested: requested, limit: 1} }

// Acquire takes a credit for a live call, first come, first served; waited reports
// whether none was there at once. It ends with ctx, with ErrEnded when dead is
// closed, or with ErrClogged.
func (c *Credits) Acquire(ctx context.Context, dead <-chan struct{}) (waited bool, err error) {
	c.mu.Lock()
	if c.used < c.limit { // then no live call waits
		c.take(Live)
		c.mu.Unlock()
		return false, nil
	}
	if c.clogged() {
		c.mu.Unlock()
		return true, ErrClogged
	}
	return true, c.wait(ctx, dead, Live)
}

// AcquireOverdue is Acquire for an overdue call.
func (c *Credits) AcquireOverdue(ctx context.Context, dead <-chan struct{}) error {
	c.mu.Lock()
	return c.wait(ctx, dead, Overdue)
}

// wait takes a credit in its turn. c.mu is held; it unlocks it.
func (c *Credits) wait(ctx context.Context, dead <-chan struct{}, s Share) (err error) {
	w := make(chan struct{}, 1)
	c.waiting[s] = append(c.waiting[s], w)
	c.serve()
	c.mu.Unlock()
	select {
	case <-w:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-dead:
		err = ErrEnded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.waiting[s]
	for i, other := range q {
		if other == w {
			c.waiting[s] = append(q[:i], q[i+1:]...)
			c.serve() // overdue calls may have waited for the last live one
			return err
		}
	}
	c.put(s) // it was handed over meanwhile
	return err
}

// Release gives a credit back that was held for s.
func (c *Credits) Release(s Share) {
	c.mu.Lock()
	c.put(s)
	c.mu.Unlock()
}

// Abandon records that nobody waits any more for a call with a credit held for s,
// and reports whether that leaves the connection clogged.
func (c *Credits) Abandon(s Share) (clogged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[s]--
	c.held[Abandoned]++
	return len(c.waiting[Live]) > 0 && c.clogged()
}

// Grant sets the limit to what a reply granted. A grant of zero, which would
// be a deadlock and is forbidden, counts as one. It returns the new limit and
// how much it changed.
func (c *Credits) Grant(n uint32) (limit, change int) {
	limit = c.Requested
	if uint64(n) < uint64(limit) {
		limit = max(int(n), 1)
	}
	if c.inForce.Load() == int64(limit) {
		return limit, 0
	}
	c.mu.Lock()
	c.inForce.Store(int64(limit))
	change = limit - c.limit
	c.limit, c.granted = limit, true
	c.serve()
	c.mu.Unlock()
	return limit, change
}

// take counts a credit as used. c.mu is held.
func (c *Credits) take(s Share) {
	c.used++
	c.held[s]++
}

// put takes back what take did. c.mu is held.
func (c *Credits) put(s Share) {
	c.used--
	c.held[s]--
	c.serve()
}

// serve hands credits to those who wait: to live calls first, but lest overdue
// ones never get their turn, to one of those when they have none. c.mu is held.
func (c *Credits) serve() {
	for c.used < c.limit {
		s := Live
		if none := len(c.waiting[Live]) == 0; none || c.held[Overdue] == 0 {
			if len(c.waiting[Overdue]) > 0 && c.admits() {
				s = Overdue
			} else if none {
				return
			}
		}
		c.take(s)
		c.waiting[s][0] <- struct{}{}
		c.waiting[s] = append(c.waiting[s][:0], c.waiting[s][1:]...)
	}
}

// admits reports whether an overdue call may have a credit that is free. Where
// there is only one, it may when nobody else wants it. c.mu is held.
func (c *Credits) admits() bool {
	if !c.granted {
		return false
	}
	if c.limit == 1 {
		return len(c.waiting[Live]) == 0
	}
	return c.doubtful() < c.limit-c.reserve()
}

// clogged reports whether calls given up hold what is kept for live ones.
// c.mu is held.
func (c *Credits) clogged() bool {
	return c.held[Abandoned] > 0 && c.doubtful() > c.limit-c.reserve()
}

// doubtful is how many credits may never come back. c.mu is held.
func (c *Credits) doubtful() int { return c.held[Overdue] + c.held[Abandoned] }

// reserve is how many credits are kept for live calls. c.mu is held.
func (c *Credits) reserve() int { return max(1, c.limit/4) }

// Current is the limit in force.
func (c *Credits) Current() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit
}

// Usage is what credits are held and waited for.
type Usage struct{ Used, Abandoned, Waiting, WaitingLive int }

// Usage is a snapshot.
func (c *Credits) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Usage{c.used, c.held[Abandoned], len(c.waiting[Live]) + len(c.waiting[Overdue]), len(c.waiting[Live])}
}
