package rpcrdma

import (
	"context"
	"sync"
)

// credits limits the calls under way on one connection (RFC 8166 section
// 3.3.1): to one until the first reply, then to the latest grant, and never to
// more than was requested. A credit is held from before the call is sent
// until its reply has come, even when nobody waits for it any more. Those who
// find none wait, first come, first served.
type credits struct {
	requested int

	mu      sync.Mutex
	limit   int
	used    int
	waiters []chan struct{}
}

func newCredits(requested int) *credits { return &credits{requested: requested, limit: 1} }

// acquire takes a credit; waited tells whether none was there at once. It ends
// with ctx, or with errLinkDead when dead is closed.
func (c *credits) acquire(ctx context.Context, dead <-chan struct{}) (waited bool, err error) {
	c.mu.Lock()
	if len(c.waiters) == 0 && c.used < c.limit {
		c.used++
		c.mu.Unlock()
		return false, nil
	}
	w := make(chan struct{}, 1)
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	select {
	case <-w:
		return true, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-dead:
		err = errLinkDead
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.waiters {
		if other == w {
			c.waiters = append(c.waiters[:i], c.waiters[i+1:]...)
			return true, err
		}
	}
	c.used-- // it was handed over meanwhile
	c.serve()
	return true, err
}

// release gives a credit back.
func (c *credits) release() {
	c.mu.Lock()
	c.used--
	c.serve()
	c.mu.Unlock()
}

// grant sets the limit to what a reply granted. A grant of zero, which would
// be a deadlock and is forbidden, counts as one. It returns the new limit and
// how much it changed.
func (c *credits) grant(n uint32) (limit, change int) {
	limit = c.requested
	if uint64(n) < uint64(limit) {
		limit = max(int(n), 1)
	}
	c.mu.Lock()
	change = limit - c.limit
	c.limit = limit
	c.serve()
	c.mu.Unlock()
	return limit, change
}

// serve hands credits to those who wait. c.mu is held.
func (c *credits) serve() {
	for len(c.waiters) > 0 && c.used < c.limit {
		c.used++
		c.waiters[0] <- struct{}{}
		c.waiters = append(c.waiters[:0], c.waiters[1:]...)
	}
}

// current is the limit in force.
func (c *credits) current() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit
}
