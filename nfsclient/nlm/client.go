package nlm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// Client takes locks at one server. It implements nfsclient.Locker.
type Client struct {
	cf      Config
	caller  *reconnect.Caller
	journal *journal
	prefix  string // of owner handles

	// ending ends all waiting, and calls the calls that go on without who made them.
	ending, calls      context.Context
	endWaits, endCalls context.CancelFunc
	kick               chan struct{} // holds a token when locks must be recovered
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
	c := &Client{cf: cf, prefix: string(prefix[:]), kick: make(chan struct{}, 1),
		holders: map[key]*holder{}, owners: map[nfsclient.LockOwner]*identity{}}
	c.ending, c.endWaits = context.WithCancel(context.Background())
	c.calls, c.endCalls = context.WithCancel(context.Background())
	d := &Watched{Dialer: &dialer{cf: &c.cf, none: func() error { return c.notRegistered(nil) }}, Lost: c.Restarted}
	c.caller = reconnect.New(d, reconnect.Config{Server: cf.Host, Timeo: cf.Timeo})
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
	r := ranges.Range{First: l.First, Last: last(l), Exclusive: l.Type == nfsclient.WriteLock}
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
			answers := c.ask(h, r)
			var a answer
			select {
			case a = <-answers:
			case <-ctx.Done():
				return c.abandon(h, &m, answers, r, ctx.Err())
			case <-c.ending.Done():
				return c.abandon(h, &m, answers, r, transport.ErrClosed)
			}
			switch {
			case a.event != evSilence:
			case !errors.Is(a.err, errSilence):
				return c.abandon(h, &m, nil, r, a.err)
			case c.tooLong(began):
				return c.abandon(h, &m, nil, r, transport.ErrTimeout)
			}
			if act, err = m.next(a.event), a.err; m.at == held {
				c.change(h, h.set.Lock(r))
				if c.now() != epoch {
					c.wake()
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
			}
			h.giveTurn()
			if err := c.rest(ctx, h, d); err != nil {
				c.leave(h)
				return err
			}
			act = m.next(evPause)
		default:
			c.exit(h)
			if m.at == held {
				c.works()
				return nil
			}
			c.complain(err)
			return err
		}
	}
}

// tooLong reports whether a request of a soft mount has taken too long.
func (c *Client) tooLong(began time.Time) bool {
	return c.cf.Soft && time.Since(began) >= c.cf.Timeo*time.Duration(c.cf.Retrans+1)
}

// rest waits without the turn, and then for it.
func (c *Client) rest(ctx context.Context, h *holder, d time.Duration) error {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ending, cancel)()
	if err := c.pause(both, d); err != nil {
		if c.ending.Err() != nil {
			return transport.ErrClosed
		}
		return ctx.Err()
	}
	return c.takeTurn(ctx, h)
}

// ask sends a LOCK. The call goes on when nobody waits for it any more: what it
// comes to must be known before anything else is asked for the holder.
func (c *Client) ask(h *holder, r ranges.Range) <-chan answer {
	out := make(chan answer, 1)
	c.joined.Go(func() { c.runAsk(h, r, out) })
	return out
}

func (c *Client) runAsk(h *holder, r ranges.Range, out chan<- answer) {
	s, err := c.lock(c.calls, h, r, false)
	if err != nil {
		out <- answer{unanswered(err), err}
		return
	}
	out <- answer{status(s), c.answered(s)}
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

// lock makes one LOCK call.
func (c *Client) lock(ctx context.Context, h *holder, r ranges.Range, reclaim bool) (wire.Stat, error) {
	// An odd state is that of a host that is up.
	args := wire.LockArgs{Cookie: cookie(), Exclusive: r.Exclusive, Lock: c.wireLock(h, r.First, r.Last), Reclaim: reclaim, State: 1}
	var res wire.Res
	err := c.once(ctx, h.cred, wire.ProcLock, &args, &res, wire.ResReplyMax)
	return res.Stat, err
}

// abandon gives a request up whose LOCK may be granted, and returns why. The caller's
// turn goes on until nothing of it is left at the server.
func (c *Client) abandon(h *holder, m *machine, answers <-chan answer, r ranges.Range, why error) error {
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
			act = m.next((<-answers).event)
		case actUndo:
			act = m.next(c.undo(c.calls, h, r, cancel))
		case actPause:
			_ = c.pause(c.calls, c.cf.gracePause) // its end is seen above
			act = m.next(evPause)
		}
	}
}

// undo makes the server hold of a range what h has of it.
func (c *Client) undo(ctx context.Context, h *holder, r ranges.Range, cancel bool) event {
	var res wire.Res
	if cancel {
		args := wire.CancelArgs{Cookie: cookie(), Exclusive: r.Exclusive, Lock: c.wireLock(h, r.First, r.Last)}
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
		s, err := c.lock(ctx, h, had, false)
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
			_ = c.pause(ctx, c.cf.gracePause) // its end is seen below
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
			if err := c.pause(ctx, c.cf.gracePause); err != nil {
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
	stop()
	c.endCalls()
	return errors.Join(c.caller.Close(), c.journal.close())
}
