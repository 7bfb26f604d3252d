package nlm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// Client takes locks at one server. It implements nfsclient.Locker.
type Client struct {
	cf     Config
	caller *reconnect.Caller
	// patience is what holds of the Config's now.
	patience atomic.Pointer[reconnect.Patience]
	journal  *journal
	prefix   string // of owner handles

	// ending ends all waiting, and calls the calls that go on without who made them.
	ending, calls      context.Context
	endWaits, endCalls context.CancelFunc
	kick               chan struct{} // holds a token when locks must be recovered
	held               chan struct{} // … when there are locks and there were none
	doubt              chan struct{} // … when callbacks may go to another program
	joined             sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	started bool // runRecover
	holders map[key]*holder
	owners  map[nfsclient.LockOwner]*identity
	lastOH  uint64
	watcher nfsclient.Watcher
	// heldRanges is how many ranges all holders have.
	heldRanges int
	// epoch counts the times that the server may have restarted.
	epoch uint64
	// known: the server was reached once. Until then, failure is why it was not, at
	// failedAt.
	known    bool
	failure  error
	failedAt time.Time
	hearing  hearing
	// complained is the failure that the log has.
	complained Failure
}

var _ nfsclient.Locker = (*Client)(nil)

// New returns a Client. It connects when it is needed: with the first lock, or if a
// process that was killed has left some on this server.
func New(cf Config) *Client {
	cf.setDefaults()
	var prefix [16]byte
	_, _ = rand.Read(prefix[:]) // it never fails
	c := &Client{cf: cf, prefix: string(prefix[:]), kick: make(chan struct{}, 1), held: make(chan struct{}, 1), doubt: make(chan struct{}, 1),
		hearing: hearing{waits: map[*waiter]struct{}{}}, holders: map[key]*holder{}, owners: map[nfsclient.LockOwner]*identity{}}
	c.ending, c.endWaits = context.WithCancel(context.Background())
	c.calls, c.endCalls = context.WithCancel(context.Background())
	d := &Watched{Dialer: &dialer{cf: &c.cf, none: func() error { return c.notRegistered(nil) }}, Lost: c.Restarted}
	c.caller = reconnect.New(d, reconnect.Config{Server: cf.Host, Timeo: cf.Timeo, Account: cf.Account})
	c.patience.Store(&reconnect.Patience{Timeo: cf.Timeo, Retrans: cf.Retrans, Soft: cf.Soft})
	c.journal = newJournal(cf.JournalDir, cf.Addr)
	if left := c.journal.orphans(); len(left) > 0 {
		c.joined.Go(func() { c.runSweep(left) })
	}
	return c
}

// Check reports whether the server has a lock manager, as far as rpcbind knows, and
// logs why not.
func (c *Client) Check(ctx context.Context) error {
	port, err := c.cf.Port(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		err = c.unreachable(err)
	case port == 0:
		err = c.notRegistered(nil)
	default:
		return nil
	}
	c.complain(err)
	return err
}

// Watch has w hear of locks that are lost, as Watch of nfsclient.Client does.
func (c *Client) Watch(w nfsclient.Watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watcher = w
}

// SetLock implements nfsclient.Locker.
func (c *Client) SetLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	if l.Type == nfsclient.Unlocked {
		return c.release(ctx, key{h, owner}, l)
	}
	return c.take(ctx, cr, key{h, owner}, l, false)
}

// WaitLock implements nfsclient.Locker.
func (c *Client) WaitLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	if l.Type == nfsclient.Unlocked {
		return c.release(ctx, key{h, owner}, l)
	}
	return c.take(ctx, cr, key{h, owner}, l, true)
}

// last is where a lock ends: one that ends at the largest offset is to the end of
// the file.
func last(l nfsclient.Lock) uint64 {
	if l.Last >= maxOffset {
		return ranges.End
	}
	return l.Last
}

// answer is what came of a LOCK: an event, and the error for who asked.
type answer struct {
	event event
	err   error
	// queued: the server says that it may grant the lock later.
	queued bool
}

// take takes a lock. Between two tries others may use the turn: a thread that waits
// must not keep another from unlocking what it waits for.
func (c *Client) take(ctx context.Context, cr nfsclient.Cred, k key, l nfsclient.Lock, wait bool) error {
	if err := c.contact(ctx); err != nil {
		return err
	}
	h, err := c.enter(ctx, k)
	if err != nil {
		return err
	}
	c.attend()
	r := ranges.Range{First: l.First, Last: last(l), Exclusive: l.Type == nfsclient.WriteLock}
	var w *waiter
	if wait {
		w = c.begin(h, r)
		defer c.end(w)
	}
	// queued: the server may grant the lock later. woken: it may have, or has restarted.
	// again: the lock has been waited for.
	var queued, woken, again bool
	var a answer
	m, act, began := machine{at: asking}, actLock, time.Now()
	for delay := c.cf.firstPause; ; {
		switch act {
		case actLock:
			h.cred = cr
			if err := c.write(h); err != nil {
				c.exit(h)
				return err
			}
			epoch := c.now()
			answers := c.ask(h, r, w != nil && c.mayBlock())
			select {
			case a = <-answers:
			case <-ctx.Done():
				return c.abandon(h, &m, w, answers, r, ctx.Err())
			case <-c.ending.Done():
				return c.abandon(h, &m, w, answers, r, transport.ErrClosed)
			}
			switch {
			case a.event != evSilence:
			case !errors.Is(a.err, errSilence):
				return c.abandon(h, &m, w, nil, r, a.err)
			case c.tooLong(began):
				return c.abandon(h, &m, w, nil, r, transport.ErrTimeout)
			}
			if act, err = m.next(a.event), a.err; m.at == held {
				c.change(h, h.set.Lock(r))
				if c.now() != epoch {
					c.wake()
				}
				if queued && again && !woken && !w.asked() {
					c.missed()
				}
			}
		case actPause:
			if m.at == waiting && !wait {
				c.exit(h)
				return nfsclient.ErrLocked
			}
			d := c.cf.gracePause
			if m.at == waiting {
				d, delay = delay, min(2*delay, c.cf.lastPause)
				if a.queued {
					queued, d = true, c.interval(d)
				}
				again = true
			}
			h.giveTurn()
			if woken, err = c.rest(ctx, h, w, d); err != nil {
				if queued {
					c.withdraw(h, w)
				} else {
					c.leave(h)
				}
				return err
			}
			act = m.next(evPause)
		default:
			if m.at == held {
				c.exit(h)
				c.works()
				return nil
			}
			if h.giveTurn(); queued {
				c.withdraw(h, w)
			} else {
				c.leave(h)
			}
			c.complain(err)
			return err
		}
	}
}

// SetPatience changes how long is waited for a server that was there.
func (c *Client) SetPatience(p reconnect.Patience) {
	c.patience.Store(&p)
	c.caller.SetPatience(reconnect.Patience{Timeo: p.Timeo})
}

// tooLong reports whether a request of a soft mount has taken too long.
func (c *Client) tooLong(began time.Time) bool {
	p := c.patience.Load()
	return p.Soft && time.Since(began) >= p.Timeo*time.Duration(p.Retrans+1)
}

// rest waits without the turn, and then for it. w may be nil; it ends the pause, and
// woken says so.
func (c *Client) rest(ctx context.Context, h *holder, w *waiter, d time.Duration) (woken bool, err error) {
	var wake <-chan struct{}
	if w != nil {
		wake = w.woken
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
		woken = true
	case <-ctx.Done():
		return false, ctx.Err()
	case <-c.ending.Done():
		return false, transport.ErrClosed
	}
	return woken, c.takeTurn(ctx, h)
}

// ask sends a LOCK. The call goes on when nobody waits for it any more: what it
// comes to must be known before anything else is asked for the holder.
func (c *Client) ask(h *holder, r ranges.Range, block bool) <-chan answer {
	out := make(chan answer, 1)
	c.joined.Go(func() { c.runAsk(h, r, block, out) })
	return out
}

func (c *Client) runAsk(h *holder, r ranges.Range, block bool, out chan<- answer) {
	s, err := c.lock(c.calls, h, r, lockHow{block: block})
	if err != nil {
		out <- answer{event: unanswered(err), err: err}
		return
	}
	out <- answer{status(s), c.answered(s), s == wire.Blocked}
}

// unanswered turns an error of a call into an event. The server has not carried out
// what RPC refused; all else it may have.
func unanswered(err error) event {
	var known *Error
	if errors.As(err, &known) {
		return evRefused
	}
	return evSilence
}

// lockHow is what else a LOCK says: it is to be queued at the server if somebody else
// has the lock; it was granted before the server restarted.
type lockHow struct{ block, reclaim bool }

// lock makes one LOCK call.
func (c *Client) lock(ctx context.Context, h *holder, r ranges.Range, how lockHow) (wire.Stat, error) {
	// An odd state is that of a host that is up. It never changes, as the server is never
	// told of a restart.
	args := wire.LockArgs{Cookie: cookie(), Block: how.block, Exclusive: r.Exclusive, Lock: c.wireLock(h, r.First, r.Last), Reclaim: how.reclaim, State: 1}
	var res wire.Res
	err := c.once(ctx, h.cred, wire.ProcLock, &args, &res, wire.ResReplyMax)
	return res.Stat, err
}

// abandon gives a request up whose LOCK may be granted, and returns why. The caller's
// turn goes on until nothing of it is left at the server, and from now on the server is told
// that the lock is not wanted.
func (c *Client) abandon(h *holder, m *machine, w *waiter, answers <-chan answer, r ranges.Range, why error) error {
	c.forget(w)
	act := m.next(evGiveUp)
	if answers == nil {
		act = m.next(evSilence)
	}
	c.joined.Go(func() { c.runUndo(h, m, act, answers, r, true) })
	return why
}

// runUndo gives back what the server may hold of a range for h beyond what h has,
// with the turn.
func (c *Client) runUndo(h *holder, m *machine, act action, answers <-chan answer, r ranges.Range, cancel bool) {
	defer func() {
		if m.at != free {
			// Closed before the server has answered: the next process sees to it.
			c.journal.keep()
			h.note = 0
		}
		c.exit(h)
	}()
	for act != actNone && c.calls.Err() == nil {
		switch act {
		case actListen:
			a := <-answers
			if a.queued {
				a.event = evSilence // it may yet be granted
			}
			act = m.next(a.event)
		case actUndo:
			act = m.next(c.undo(c.calls, h, r, cancel))
		case actPause:
			_ = nfsclient.Pause(c.calls, c.cf.gracePause) // its end is seen above
			act = m.next(evPause)
		}
	}
}

// undo makes the server hold of a range what h has of it.
func (c *Client) undo(ctx context.Context, h *holder, r ranges.Range, cancel bool) event {
	var res wire.Res
	if cancel {
		args := wire.CancelArgs{Cookie: cookie(), Block: true, Exclusive: r.Exclusive, Lock: c.wireLock(h, r.First, r.Last)}
		if err := c.once(ctx, h.cred, wire.ProcCancel, &args, &res, wire.ResReplyMax); err != nil {
			return unanswered(err)
		}
	}
	for _, gap := range h.set.Gaps(r.First, r.Last) {
		args := wire.UnlockArgs{Cookie: cookie(), Lock: c.wireLock(h, gap.First, gap.Last)}
		if err := c.once(ctx, h.cred, wire.ProcUnlock, &args, &res, wire.ResReplyMax); err != nil {
			return unanswered(err)
		}
		if e := status(res.Stat); e != evGranted {
			return e
		}
	}
	for _, had := range h.set.Within(r.First, r.Last) {
		s, err := c.lock(ctx, h, had, lockHow{})
		if err != nil {
			return unanswered(err)
		}
		switch status(s) {
		case evGrace, evUnable:
			return evGrace
		case evDenied, evRefused:
			c.lose(h, had, s)
		}
	}
	return evGranted
}

// release gives a range back: here first, and then at the server, which is told until
// it answers. If ctx ends before, that goes on without the caller.
func (c *Client) release(ctx context.Context, k key, l nfsclient.Lock) error {
	c.mu.Lock()
	nothing := c.holders[k] == nil
	c.mu.Unlock()
	if nothing {
		return nil
	}
	h, err := c.enter(ctx, k)
	if err != nil {
		return err
	}
	r := ranges.Range{First: l.First, Last: last(l)}
	if len(h.set.Within(r.First, r.Last)) == 0 {
		c.exit(h)
		return nil
	}
	c.change(h, h.set.Unlock(r.First, r.Last))
	m, began := &machine{at: held}, time.Now()
	for act := m.next(evGiveUp); act != actNone; {
		e := evPause
		if act == actUndo {
			e = c.undo(ctx, h, r, false)
		} else {
			_ = nfsclient.Pause(ctx, c.cf.gracePause) // its end is seen below
		}
		if ctx.Err() != nil || c.tooLong(began) {
			m.at = undoing
			c.joined.Go(func() { c.runUndo(h, m, actUndo, nil, r, false) })
			return nil
		}
		act = m.next(e)
	}
	c.exit(h)
	return nil
}

// TestLock implements nfsclient.Locker.
func (c *Client) TestLock(ctx context.Context, cr nfsclient.Cred, fh nfsclient.Handle, _ nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) (*nfsclient.Lock, error) {
	if err := c.contact(ctx); err != nil {
		return nil, err
	}
	h, err := c.enter(ctx, key{fh, owner})
	if err != nil {
		return nil, err
	}
	defer c.exit(h)
	for {
		args := wire.TestArgs{Cookie: cookie(), Exclusive: l.Type == nfsclient.WriteLock, Lock: c.wireLock(h, l.First, last(l))}
		var res wire.TestRes
		if err := c.until(ctx, cr, wire.ProcTest, &args, &res, wire.TestReplyMax); err != nil {
			return nil, err
		}
		switch res.Stat {
		case wire.Granted:
			return nil, nil
		case wire.Denied:
			return holderOf(&res.Holder), nil
		case wire.DeniedGracePeriod:
			if err := nfsclient.Pause(ctx, c.cf.gracePause); err != nil {
				return nil, err
			}
			continue
		}
		err := c.answered(res.Stat)
		c.complain(err)
		return nil, err
	}
}

// holderOf is the lock that a server says to conflict.
func holderOf(w *wire.Holder) *nfsclient.Lock {
	l := &nfsclient.Lock{Type: nfsclient.ReadLock, First: w.Offset, Last: ranges.End}
	if w.Exclusive {
		l.Type = nfsclient.WriteLock
	}
	if end := w.Offset + w.Length - 1; w.Length != 0 && end >= w.Offset && end < maxOffset {
		l.Last = end
	}
	return l
}

// works notes that locks work, so that the log hears of the next failure.
func (c *Client) works() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complained = 0
}

// attend starts what looks after locks, with the first that is asked for.
func (c *Client) attend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started && !c.closed {
		c.started = true
		c.joined.Go(c.runRecover)
	}
}

// Close gives back what is held and ends the connection. What the server did not
// take back when ctx ended is left to the next process, by the journal.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return fmt.Errorf("nlm: %w twice", transport.ErrClosed)
	}
	c.closed = true
	c.watcher = nil
	var left []*holder
	for _, h := range c.holders {
		h.users++
		left = append(left, h)
	}
	c.mu.Unlock()
	c.endWaits()
	c.hearing.running.Wait()
	stop := context.AfterFunc(ctx, c.endCalls)
	all := ranges.Range{Last: ranges.End}
	for _, h := range left {
		// Who has the turn gives it back: everything has been told to end.
		<-h.turn
		if len(h.set) == 0 {
			c.exit(h)
			continue
		}
		c.change(h, nil)
		c.runUndo(h, &machine{at: undoing}, actUndo, nil, all, false)
	}
	c.joined.Wait()
	c.deafen(ctx)
	stop()
	c.endCalls()
	return errors.Join(c.caller.Close(), c.journal.close())
}
