package reconnect

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// fakeClock stands still until advanced.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*fakeTimer]time.Time
	set    chan time.Duration // every timer set
}

type fakeTimer struct {
	c *fakeClock
	f func()
}

func newClock() *fakeClock {
	return &fakeClock{now: time.Unix(1e9, 0), timers: map[*fakeTimer]time.Time{}, set: make(chan time.Duration, 1000)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) Timer {
	t := &fakeTimer{c, f}
	t.Reset(d)
	return t
}

func (t *fakeTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	_, ok := t.c.timers[t]
	delete(t.c.timers, t)
	return ok
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	ok := t.Stop()
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.timers[t] = t.c.now.Add(d)
	t.c.set <- d
	return ok
}

// advance moves the clock and runs what is due.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*fakeTimer
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

// sent is one Exchange of a fakeLink; what is put into answer ends it.
type sent struct {
	link    *fakeLink
	xid     uint32
	call    *transport.Call
	overdue bool
	answer  chan error
}

// fakeDialer asks the test whether to connect, and how to answer.
type fakeDialer struct {
	dials chan chan error
	sent  chan sent
	first int // Limits.First
	mu    sync.Mutex
	open  int
	done  bool
}

type fakeLink struct {
	d    *fakeDialer
	done chan struct{}
	mu   sync.Mutex
	err  error
	// stalled is what Stalled returns.
	stalled error
	wg      sync.WaitGroup
}

func newDialer() *fakeDialer {
	return &fakeDialer{dials: make(chan chan error), sent: make(chan sent, 100)}
}

func (d *fakeDialer) Dial(ctx context.Context) (transport.Link, error) {
	ask := make(chan error)
	select {
	case d.dials <- ask:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case err := <-ask:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	d.open++
	d.mu.Unlock()
	return &fakeLink{d: d, done: make(chan struct{})}, nil
}

func (d *fakeDialer) Register(*mem.Arena) error   { return nil }
func (d *fakeDialer) Unregister(*mem.Arena) error { return nil }
func (d *fakeDialer) Limits() transport.Limits {
	return transport.Limits{Concurrent: 10, First: d.first}
}
func (d *fakeDialer) Stats() transport.Stats { return transport.Stats{Calls: 7} }
func (d *fakeDialer) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != 0 || d.done {
		return fmt.Errorf("%d links open, closed before: %v", d.open, d.done)
	}
	d.done = true
	return nil
}

func (l *fakeLink) Exchange(ctx context.Context, xid uint32, c *transport.Call) error {
	return l.exchange(ctx, xid, c, false)
}

func (l *fakeLink) ExchangeOverdue(ctx context.Context, xid uint32, c *transport.Call) error {
	return l.exchange(ctx, xid, c, true)
}

func (l *fakeLink) exchange(ctx context.Context, xid uint32, c *transport.Call, overdue bool) error {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return &transport.Error{Fate: transport.NotSent, Err: l.err}
	}
	l.wg.Add(1)
	l.mu.Unlock()
	defer l.wg.Done()
	s := sent{l, xid, c, overdue, make(chan error, 1)}
	l.d.sent <- s
	select {
	case err := <-s.answer:
		return err
	case <-l.done:
		return &transport.Error{Fate: transport.Unknown, Err: l.Err()}
	case <-ctx.Done():
		return &transport.Error{Fate: transport.Unknown, Err: ctx.Err()}
	}
}

func (l *fakeLink) Done() <-chan struct{} { return l.done }

func (l *fakeLink) Stalled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled
}

// stall has nothing get through.
func (l *fakeLink) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = errors.New("no acknowledgements")
}

func (l *fakeLink) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *fakeLink) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

func (l *fakeLink) Close() error {
	l.lose(transport.ErrClosed)
	l.wg.Wait()
	l.d.mu.Lock()
	l.d.open--
	l.d.mu.Unlock()
	return nil
}

// rig is a Caller over fakes.
type rig struct {
	*testing.T
	c     *Caller
	d     *fakeDialer
	clock *fakeClock
	logs  chan string
}

func newRig(t *testing.T, cfg Config) *rig { return newRigOver(t, newDialer(), cfg) }

func newRigOver(t *testing.T, d *fakeDialer, cfg Config) *rig {
	r := &rig{T: t, d: d, clock: newClock(), logs: make(chan string, 100)}
	if cfg.Probe == 0 {
		cfg.Probe = -1
	}
	cfg.Server, cfg.Clock = "srv", r.clock
	cfg.Log = testlog.To(func(message string) { r.logs <- message })
	r.c = New(r.d, cfg)
	t.Cleanup(func() {
		if err := r.c.Close(); err != nil {
			t.Error(err)
		}
		if err := r.c.Close(); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
		noSlots(t)
	})
	return r
}

// noSlots fails the test when a slot's goroutine has outlived its Caller.
func noSlots(t *testing.T) {
	b := make([]byte, 1<<20)
	for range 1000 {
		if !strings.Contains(string(b[:runtime.Stack(b, true)]), "runSlot") {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("left running:\n%s", b[:runtime.Stack(b, true)])
}

// call makes a call on another goroutine.
func (r *rig) call(ctx context.Context) <-chan error {
	res := make(chan error, 1)
	go func() { res <- r.c.Call(ctx, &transport.Call{Prog: 1}) }()
	return res
}

// dial awaits an attempt to connect and lets it end with err.
func (r *rig) dial(err error) { (<-r.d.dials) <- err }

func (r *rig) wantLog(part string) {
	r.Helper()
	if got := <-r.logs; !strings.Contains(got, part) {
		r.Errorf("logged %q, want %q", got, part)
	}
}

func wantError(t *testing.T, err error, fate transport.Fate, is error) {
	t.Helper()
	var e *transport.Error
	if !errors.As(err, &e) || e.Fate != fate || !errors.Is(err, is) {
		t.Errorf("error %v, want %v with %v", err, is, fate)
	}
}

// step advances the clock to the next timer and returns how far that was.
func (c *fakeClock) step() time.Duration {
	c.mu.Lock()
	d := time.Duration(1 << 62)
	for _, at := range c.timers {
		d = min(d, at.Sub(c.now))
	}
	c.mu.Unlock()
	c.advance(d)
	return d
}
