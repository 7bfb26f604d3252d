package nlm

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// Restarted says that the server may have restarted, and have lost our locks: a
// connection was lost, or the write verifier has changed. It does not wait.
func (c *Client) Restarted() {
	c.mu.Lock()
	c.epoch++
	held := c.heldRanges > 0
	c.mu.Unlock()
	c.wakeWaits()
	if held { // what is being taken looks at epoch
		c.wake()
	}
}

// wake has locks recovered.
func (c *Client) wake() { signal(c.kick) }

func (c *Client) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// runRecover serves callbacks, recovers locks whenever the server may have lost them, and
// calls it now and then while some are held.
func (c *Client) runRecover() {
	c.listen()
	t := time.NewTimer(c.cf.heartbeat)
	defer t.Stop()
	// silent: NFS did not answer when the locks were recovered. A restart after that would
	// not show as the loss of its connection.
	silent := false
	for {
		select {
		case <-c.ending.Done():
			return
		case <-c.kick:
			silent = !c.recover()
		case <-c.held:
			t.Reset(c.cf.heartbeat)
		case <-c.doubt:
			c.stillFound()
		case <-t.C:
			c.mu.Lock()
			any := c.heldRanges > 0
			c.mu.Unlock()
			if !any {
				break // held starts the timer again
			}
			// What is wrong shows as a connection that is lost.
			_ = c.once(c.ending, nfsclient.Cred{}, wire.ProcNull, nil, nil, 0)
			if c.probe() && silent {
				silent = false
				c.Restarted()
			}
			t.Reset(c.cf.heartbeat)
		}
	}
}

// probe makes sure that there is a connection of NFS, whose loss shows the next
// restart. It reports whether the server has answered.
func (c *Client) probe() bool {
	if c.cf.Probe == nil {
		return true
	}
	bounded, cancel := context.WithTimeout(c.ending, c.cf.tryTimeout)
	defer cancel()
	return c.cf.Probe(bounded) == nil
}

// tally is what came of the locks that were held.
type tally struct{ reclaimed, retaken, lost int }

// recover gets the locks of all holders back, those first for which the server
// needs no more time. It reports whether NFS has answered before.
func (c *Client) recover() (answered bool) {
	c.mu.Lock()
	var queue []*holder
	for _, h := range c.holders {
		if len(h.set) > 0 {
			h.users++
			queue = append(queue, h)
		}
	}
	c.mu.Unlock()
	if len(queue) == 0 {
		return true
	}
	answered = c.probe()
	c.cf.Log.Info(fmt.Sprintf("locks on %s: the server may have restarted: getting the locks of %d owners back", c.cf.Host, len(queue)))
	var t tally
	unable := map[*holder]int{}
	for len(queue) > 0 {
		var again []*holder
		for _, h := range queue {
			if c.takeTurn(c.ending, h) != nil {
				c.leave(h)
				continue
			}
			done := c.restore(h, &t, unable)
			h.giveTurn()
			if done {
				c.leave(h)
			} else {
				again = append(again, h)
			}
		}
		if queue = again; len(queue) > 0 {
			_ = nfsclient.Pause(c.ending, c.cf.gracePause) // its end is seen above
		}
	}
	c.cf.Log.Info(fmt.Sprintf("locks on %s: %d reclaimed, %d taken again outside of the grace period, %d lost", c.cf.Host, t.reclaimed, t.retaken, t.lost))
	return answered
}

// restore gets back what h holds, with the turn. It reports whether that is settled;
// otherwise it starts over.
func (c *Client) restore(h *holder, t *tally, unable map[*holder]int) bool {
	var now tally
	for _, r := range h.set {
		m := machine{at: held, unable: unable[h]}
		reclaimed := false
		var last wire.Stat
		act := m.next(evRestart)
		for act == actReclaim || act == actLock {
			reclaimed = act == actReclaim
			s, err := c.lock(c.calls, h, r, lockHow{reclaim: reclaimed})
			switch {
			case c.ending.Err() != nil:
				return true // Close gives back what there is
			case err == nil:
				last, act = s, m.next(status(s))
			case errors.Is(err, errSilence):
				act = m.next(evSilence)
			default:
				last, act = wire.Failed, m.next(evUnable)
			}
		}
		unable[h] = m.unable
		switch {
		case act == actPause:
			return false
		case m.at == lost:
			now.lost++
			c.lose(h, r, last)
		case reclaimed:
			now.reclaimed++
		default:
			now.retaken++
		}
	}
	t.reclaimed, t.retaken, t.lost = t.reclaimed+now.reclaimed, t.retaken+now.retaken, t.lost+now.lost
	return true
}

// lose drops a range that somebody else may have by now, with the turn, and tells
// whose it was.
func (c *Client) lose(h *holder, r ranges.Range, s wire.Stat) {
	c.change(h, h.set.Unlock(r.First, r.Last))
	err := c.fail(LostLock, syscall.EIO, "a lock was lost when the server restarted", "close the file and open it anew", fmt.Errorf("the server answered: %v", s))
	c.cf.Log.Warn(fmt.Sprintf("%v, on bytes %d to %d of the file with handle %x", err, r.First, r.Last, string(h.handle)))
	c.mu.Lock()
	w := c.watcher
	c.mu.Unlock()
	if w != nil {
		owner := h.owner
		w.Lost(h.handle, &owner, err)
	}
}
