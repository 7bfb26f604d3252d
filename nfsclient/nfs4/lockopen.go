package nfs4

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// A lock stateid belongs to the opening through which its owner locked first: it ends with that, and permits no type of lock
// that the opening does not permit. A process, however, may lock through several openings of a file, and close them in any order.

// move has l locked through o from now on if nothing is locked: else the CLOSE of the opening before, which the server may hear of
// late, would take what is locked now. The stateid that it returns is then of no use. stateTable.mu is held, and l's turn.
func (c *Client) move(l *lockState, o *openState) (dead []wire.Stateid) {
	if l.open == o || len(l.set) > 0 {
		return nil
	}
	if l.known {
		dead = []wire.Stateid{l.sid}
		l.known, l.name = false, c.lockers.Add(1) // a lock-owner may be bound to its first opening
	}
	l.open, l.through = nil, nil
	return dead
}

// use notes that something was locked through o; stateTable.mu is held.
func (l *lockState) use(o *openState) {
	switch {
	case !l.known:
		l.open = o
	case l.open != o:
		if l.through == nil {
			l.through = map[*openState]struct{}{}
		}
		l.through[o] = struct{}{}
	}
}

// linger reports whether o must stay open at the server, though it is closed here: the stateid of locks belongs to it whose owner has
// locked through another opening, too.
func (c *Client) linger(o *openState) bool {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	needed := false
	for _, l := range t.locks {
		delete(l.through, o)
		needed = needed || l.open == o && len(l.set) > 0 && len(l.through) > 0
	}
	if needed = needed && !t.closed; needed {
		t.lingering[o] = struct{}{}
	} else {
		delete(t.lingering, o)
	}
	return needed
}

// closeLingering closes openings of a file that have lingered, and are not needed any more.
func (c *Client) closeLingering(ctx context.Context, h nfsclient.Handle) {
	t := &c.state
	t.mu.Lock()
	var all []*openState
	for o := range t.lingering {
		if o.h == h {
			all = append(all, o)
		}
	}
	t.mu.Unlock()
	for _, o := range all {
		if err := c.closeTurn(ctx, o); err != nil {
			c.cf.Log.Info(fmt.Sprintf("%s: closing a file at the server: %v", c.cf.Host, settle(err)))
		}
	}
}

// narrower is the opening through which l is locked, if it does not permit what o does; nil otherwise. What is locked would be lost if
// l was locked through o instead.
func (c *Client) narrower(l *lockState, o *openState) *openState {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	if by := l.open; by != nil && by != o && o.access&^(by.access|by.wider) != 0 {
		return by
	}
	return nil
}

// widen has an opening permit more, by OPEN with the same open-owner.
func (c *Client) widen(ctx context.Context, o *openState, more nfsclient.OpenMode) error {
	if err := o.turn.take(ctx); err != nil {
		return err
	}
	defer o.turn.leave()
	t := &c.state
	t.mu.Lock()
	_, open := t.opens[o]
	was := o.wider
	o.wider |= more
	t.mu.Unlock()
	if !open {
		return nil // and what was locked through it is locked no more
	}
	_, err := c.open(ctx, o, &wire.Open{Claim: wire.ClaimFH})
	if err != nil {
		t.mu.Lock()
		o.wider = was
		t.mu.Unlock()
	}
	return err
}

// share is share_access of OPEN for an opening.
func (c *Client) share(o *openState) uint32 {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return shareAccess(o.access | o.wider)
}

// dropIdle forgets an owner that has nothing locked and no stateid, unless somebody waits for a lock of its or makes a call for it: who
// does comes here, too.
func (c *Client) dropIdle(k lockKey) {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.locks[k]
	if l == nil || l.known || len(l.set) > 0 || l.told != nil {
		return
	}
	for w := range t.waiting {
		if w.h == k.h && w.owner == k.owner && !w.copies {
			return
		}
	}
	if l.turn.try() {
		delete(t.locks, k)
		l.turn.leave()
	}
}
