package nlm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
	"github.com/rdmafs/rdmafs/transport"
)

// waiter is a lock that is waited for.
type waiter struct {
	h *holder
	r ranges.Range
	// woken has a token when the server has to be asked again at once: it has granted the
	// lock, or may have restarted.
	woken chan struct{}
}

func (w *waiter) wake() { signal(w.woken) }

// asked reports whether the server is to be asked at once, and takes note of it. w may
// be nil.
func (w *waiter) asked() bool {
	if w == nil {
		return false
	}
	select {
	case <-w.woken:
		return true
	default:
		return false
	}
}

// hearing is what is known of callbacks; guarded by Client.mu.
type hearing struct {
	listener *callback.Listener // nil: the server is only polled
	waits    map[*waiter]struct{}
	// running are those who wait; not added to once the Client is closed.
	running sync.WaitGroup
	// calls: the server has called back, and is polled at long intervals.
	calls bool
	// state is what the last SM_NOTIFY said.
	state int32
}

// listenTimeout bounds all calls of this host's rpcbind together.
const listenTimeout = 5 * time.Second

// listen serves callbacks, if this host lets us.
func (c *Client) listen() {
	if c.cf.Rpcbind == "" {
		return
	}
	ctx, cancel := context.WithTimeout(c.ending, listenTimeout)
	defer cancel()
	cf := callback.Config{Server: c.cf.Addr, Rpcbind: c.cf.Rpcbind, Handler: (*heard)(c), Log: c.cf.Log}
	if c.cf.JournalDir != "" {
		cf.Note = filepath.Join(c.cf.JournalDir, "callbacks")
	}
	l, err := callback.Listen(ctx, cf)
	switch {
	case c.ending.Err() != nil && l == nil:
		return
	case errors.As(err, new(*net.OpError)) && errors.Is(err, os.ErrNotExist): // the socket
		err = errors.New("this host has no rpcbind")
	}
	if err != nil {
		c.cf.Log.Info(fmt.Sprintf("locks on %s: one that somebody else has is asked for again, at least each second (lock_wait polling): %v", c.cf.Host, err))
		return
	}
	c.cf.Log.Info(fmt.Sprintf("locks on %s: the server may call back when a lock is granted (lock_wait granted, once it has); NSM: %v", c.cf.Host, l.Monitors()))
	c.mu.Lock()
	c.hearing.listener = l
	c.mu.Unlock()
}

// deafen ends the serving of callbacks.
func (c *Client) deafen(ctx context.Context) {
	c.mu.Lock()
	l := c.hearing.listener
	c.hearing.listener, c.hearing.calls = nil, false
	c.mu.Unlock()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenTimeout)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		c.cf.Log.Warn(fmt.Sprintf("locks on %s: the callbacks stay registered at rpcbind: %v", c.cf.Host, err))
	}
}

// stillFound ends callbacks that another program has taken over at rpcbind.
func (c *Client) stillFound() {
	c.mu.Lock()
	l := c.hearing.listener
	c.mu.Unlock()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ending, listenTimeout)
	defer cancel()
	yes, err := l.Registered(ctx)
	if yes || c.ending.Err() != nil {
		return
	}
	if err == nil {
		err = callback.ErrTaken
	}
	c.cf.Log.Info(fmt.Sprintf("locks on %s: one that somebody else has is asked for again from now on, at least each second (lock_wait polling): %v", c.cf.Host, err))
	c.deafen(c.ending)
}

// LockWait says how a lock that somebody else has is waited for: "granted" if the
// server calls back, "polling" if it is asked again at short intervals, because it
// cannot reach us or has not called back so far.
func (c *Client) LockWait() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hearing.listener != nil && c.hearing.calls {
		return "granted"
	}
	return "polling"
}

// begin has a lock waited for: callbacks for it are accepted from now on, before it is
// asked for.
func (c *Client) begin(h *holder, r ranges.Range) *waiter {
	w := &waiter{h: h, r: r, woken: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil // it is about to fail
	}
	c.hearing.waits[w] = struct{}{}
	c.hearing.running.Add(1)
	return w
}

// end is called when nobody waits any more. w may be nil.
func (c *Client) end(w *waiter) {
	if w != nil {
		c.forget(w)
		c.hearing.running.Done()
	}
}

// forget ends that: the server is told that the lock is not wanted, unless its owner holds
// it. w may be nil.
func (c *Client) forget(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.hearing.waits, w)
}

// mayBlock reports whether a LOCK may be queued at the server.
func (c *Client) mayBlock() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hearing.listener != nil
}

// interval is how long to wait for a callback, short if there will be none.
func (c *Client) interval(short time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hearing.listener != nil && c.hearing.calls {
		return c.cf.blockedPause
	}
	return short
}

// missed notes that a lock was granted by polling: the server does not call back, or
// not us.
func (c *Client) missed() {
	c.mu.Lock()
	missed := c.hearing.calls
	c.hearing.calls = false
	c.mu.Unlock()
	if missed {
		signal(c.doubt)
	}
}

// wakeWaits has everything that waits asked for again: a server that has restarted
// does not know of it.
func (c *Client) wakeWaits() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.hearing.waits {
		w.wake()
	}
}

// withdraw gives up a LOCK that is queued at the server, without the turn. The caller's
// use of h goes on until nothing of it is left there.
func (c *Client) withdraw(h *holder, w *waiter) {
	c.forget(w)
	c.joined.Go(func() { c.runWithdraw(h, w.r) })
}

func (c *Client) runWithdraw(h *holder, r ranges.Range) {
	<-h.turn // whoever has it gives it back, at the latest when Close ends all calls
	c.runUndo(h, &machine{at: undoing}, actUndo, nil, r, true)
}

// heard is the Client as its callbacks see it.
type heard Client

var _ callback.Handler = (*heard)(nil)

// Granted implements callback.Handler. What waits is not held yet: its owner asks for
// it once more, which the server answers at once, so that all that changes a holder has
// its turn.
func (x *heard) Granted(a *wire.TestArgs) bool {
	c := (*Client)(x)
	r, ok := rangeOf(a)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.hearing.waits {
		if w.h.is(&a.Lock) && w.r.First == r.First && last(lockOf(w.r)) == r.Last && w.r.Exclusive == r.Exclusive {
			c.hearing.calls = true
			w.wake()
			return true
		}
	}
	for _, h := range c.holders {
		// Polling was faster.
		if h.is(&a.Lock) && holds(h.set, r) {
			return true
		}
	}
	return false
}

// is reports whether a lock is of h's owner in h's file.
func (h *holder) is(l *wire.Lock) bool {
	return l.Handle == h.handle && l.SVID == h.id.svid && l.OH == h.id.oh
}

// rangeOf is what a GRANTED is about; ok is false if there is no such range.
func rangeOf(a *wire.TestArgs) (r ranges.Range, ok bool) {
	r = ranges.Range{First: a.Lock.Offset, Last: ranges.End, Exclusive: a.Exclusive}
	if a.Lock.Length == 0 {
		return r, true
	}
	end := r.First + (a.Lock.Length - 1)
	if end < r.First {
		return r, false
	}
	r.Last = last(nfsclient.Lock{Last: end})
	return r, true
}

func lockOf(r ranges.Range) nfsclient.Lock { return nfsclient.Lock{First: r.First, Last: r.Last} }

// holds reports whether all of r is held, and as strongly.
func holds(set ranges.Set, r ranges.Range) bool {
	if len(set.Gaps(r.First, r.Last)) > 0 {
		return false
	}
	for _, had := range set.Within(r.First, r.Last) {
		if r.Exclusive && !had.Exclusive {
			return false
		}
	}
	return true
}

// Answer implements callback.Handler. A server that gets no answer calls again.
func (x *heard) Answer(ctx context.Context, res *wire.Res) {
	c := (*Client)(x)
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.calls, cancel)()
	if err := c.once(bounded, nfsclient.Cred{}, wire.ProcGrantedRes, res, nil, 0); err != nil && !errors.Is(err, transport.ErrClosed) {
		c.cf.Log.Debug(fmt.Sprintf("locks on %s: answering a GRANTED: %v", c.cf.Host, err))
	}
}

// Notified implements callback.Handler. An even number is of a host that goes down, and
// the same one of a notice that was sent again.
func (x *heard) Notified(name string, state int32) {
	c := (*Client)(x)
	c.mu.Lock()
	news := state&1 == 1 && state != c.hearing.state
	if news {
		c.hearing.state = state
	}
	c.mu.Unlock()
	if !news {
		return
	}
	c.cf.Log.Info(fmt.Sprintf("locks on %s: NSM says that %q has restarted (state %d)", c.cf.Host, name, state))
	c.Restarted()
}

// signal leaves a token.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
