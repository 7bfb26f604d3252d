package nfs4

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// waiter is a caller that waits for a lock of a file, or for the end of a copy into it.
type waiter struct {
	h nfsclient.Handle
	// owner is that of the lock.
	owner nfsclient.LockOwner
	// copies: it is the end of a copy.
	copies bool
	// Guarded by stateTable.mu: copy, that copy's stateid, zero until COPY is answered; early, ends of copies that were told until then;
	// ended, how the copy has ended; told, that the server has called back since the last try, and wake, which ends
	// the pause until the next.
	copy  wire.Stateid
	early []*wire.CBOffload
	ended *wire.CBOffload
	told  bool
	wake  context.CancelFunc
}

// waitType is the type of a lock that is waited for, or not. Only of a waiter does the server remember that it is
// to be told.
func waitType(exclusive, wait bool) wire.LockType {
	switch t := lockType(exclusive); {
	case !wait:
		return t
	case t == wire.WriteLock:
		return wire.WriteLockWait
	}
	return wire.ReadLockWait
}

func (c *Client) beginWait(w *waiter) *waiter {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.waiting[w] = struct{}{}
	return w
}

func (c *Client) endWait(w *waiter) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	delete(c.state.waiting, w)
}

// pause waits until the next try: until the server calls back, or d has passed.
func (w *waiter) pause(ctx context.Context, c *Client, d time.Duration) error {
	t := &c.state
	nap, wake := context.WithCancel(ctx)
	defer wake()
	t.mu.Lock()
	told := w.told
	w.wake, w.told = wake, false
	t.mu.Unlock()
	if told {
		return nil
	}
	err := c.sleep(nap, d)
	t.mu.Lock()
	defer t.mu.Unlock()
	told, w.wake, w.told = w.told, nil, false
	if told && ctx.Err() == nil {
		return nil
	}
	return err
}

// tell wakes w; stateTable.mu is held.
func (w *waiter) tell() {
	if w.told = true; w.wake != nil {
		w.wake()
	}
}

// tellLocks has all who wait for a lock of a file try again. Whose lock it is does not matter: a try in vain
// does no harm, and an owner may be known under another name since a restart.
func (c *Client) tellLocks(h nfsclient.Handle) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	for w := range c.state.waiting {
		if w.h == h && !w.copies {
			w.tell()
		}
	}
}

// tellCopy has who waits for a copy know how it has ended; ok is false if nobody does. While a COPY is not answered yet, it may be
// what is told of.
func (c *Client) tellCopy(o *wire.CBOffload) (ok bool) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	for w := range c.state.waiting {
		switch {
		case !w.copies || w.h != o.Handle:
		case w.copy.Other == o.Stateid.Other:
			w.ended, ok = o, true
			w.tell()
		case w.copy == (wire.Stateid{}) && len(w.early) < maxEarly:
			w.early, ok = append(w.early, o), true
		}
	}
	return ok
}

// copying gives who waits the stateid of his copy.
func (c *Client) copying(w *waiter, sid wire.Stateid) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	w.copy = sid
	for _, o := range w.early {
		if o.Stateid.Other == sid.Other {
			w.ended, w.told = o, true
		}
	}
	w.early = nil
}

// outcome is how the copy has ended, nil if the server has not called back.
func (c *Client) outcome(w *waiter) *wire.CBOffload {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return w.ended
}
