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
	link   *fakeLink
	xid    uint32
	call   *transport.Call
	answer chan error
}

// fakeDialer asks the test whether to connect, and how to answer.
type fakeDialer struct {
	dials chan chan error
	sent  chan sent
	mu    sync.Mutex
	open  int
	done  bool
}

type fakeLink struct {
	d    *fakeDialer
	done chan struct{}
	mu   sync.Mutex
	err  error
	wg   sync.WaitGroup
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
func (d *fakeDialer) Limits() transport.Limits    { return transport.Limits{Concurrent: 10} }
func (d *fakeDialer) Stats() transport.Stats      { return transport.Stats{Calls: 7} }
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
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return &transport.Error{Fate: transport.NotSent, Err: l.err}
	}
	l.wg.Add(1)
	l.mu.Unlock()
	defer l.wg.Done()
	s := sent{l, xid, c, make(chan error, 1)}
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

func newRig(t *testing.T, cfg Config) *rig {
	r := &rig{T: t, d: newDialer(), clock: newClock(), logs: make(chan string, 100)}
	cfg.Server, cfg.Clock = "srv", r.clock
	cfg.Logf = func(f string, a ...any) { r.logs <- fmt.Sprintf(f, a...) }
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

var errLost = errors.New("lost")

func TestLossIsResentUnderTheSameXID(t *testing.T) {
	r := newRig(t, Config{})
	res := r.call(t.Context())
	r.dial(nil)
	first := <-r.d.sent
	first.link.lose(errLost)
	r.wantLog("connection to srv lost: lost")
	r.rest()
	r.dial(nil)
	second := <-r.d.sent
	if second.xid != first.xid || second.link == first.link {
		t.Errorf("resent under %#x on the same link %v, first under %#x", second.xid, second.link == first.link, first.xid)
	}
	second.answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
	if s := r.c.Stats(); s.Resends != 1 || s.Timeouts != 0 || s.Calls != 7 {
		t.Errorf("%+v", s)
	}
	// After a valid reply a loss is mended at once, and by another XID for
	// another call.
	second.link.lose(errLost)
	res = r.call(t.Context())
	r.dial(nil)
	third := <-r.d.sent
	third.answer <- nil
	if err := <-res; err != nil || third.xid == first.xid {
		t.Errorf("%v, XID %#x", err, third.xid)
	}
}

// rest awaits the pause before the next attempt and ends it.
func (r *rig) rest() time.Duration {
	for d := range r.clock.set {
		if d < firstPause*3/4 || d > maxPause*5/4 {
			continue // a call's timer
		}
		r.clock.advance(d)
		return d
	}
	panic("unreachable")
}

func TestPausesDoubleUntilAReply(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour})
	res := r.call(t.Context())
	want := firstPause
	for range 12 {
		r.dial(errors.New("refused"))
		if d := r.rest(); d < want-want/4 || d > want+want/4 {
			t.Errorf("pause of %v, want about %v", d, want)
		}
		want = min(2*want, maxPause)
	}
	// A link that brings no reply is no better than none.
	r.dial(nil)
	s := <-r.d.sent
	s.link.lose(errLost)
	if d := r.rest(); d < maxPause*3/4 {
		t.Errorf("pause of %v after a link without a reply", d)
	}
	r.dial(nil)
	s = <-r.d.sent
	s.answer <- &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Code: 1}}
	if err := <-res; !errors.As(err, new(*transport.RPCError)) {
		t.Error(err)
	}
	s.link.lose(errLost)
	res = r.call(t.Context())
	r.dial(errors.New("refused"))
	if d := r.rest(); d > firstPause*5/4 {
		t.Errorf("pause of %v after a reply", d)
	}
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
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

// about tells whether got is want, give or take the pauses of a few attempts.
func about(got, want time.Duration) bool { return got <= want && got > want-5*time.Minute }

func TestHardCallGoesOnForEver(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 2})
	res := r.call(t.Context())
	r.dial(nil)
	xid := uint32(0)
	for round := range 3 {
		for i, want := range []time.Duration{time.Hour, 2 * time.Hour} {
			s := <-r.d.sent
			if xid != 0 && s.xid != xid {
				t.Errorf("XID %#x, before %#x", s.xid, xid)
			}
			xid = s.xid
			if d := r.clock.step(); !about(d, want) {
				t.Errorf("round %d: wait of %v, want %v", round, d, want)
			}
			<-s.link.done
			if round == 0 && i == 1 {
				r.wantLog("server srv not responding, still trying")
			}
			r.rest()
			r.dial(nil)
		}
	}
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
	r.wantLog("server srv OK")
	if len(r.logs) > 0 {
		t.Errorf("logged more: %q", <-r.logs)
	}
	if s := r.c.Stats(); s.Timeouts != 6 || s.Resends != 6 {
		t.Errorf("%+v", s)
	}
}

func TestSoftCallFails(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 1, Soft: true})
	res := r.call(t.Context())
	r.dial(nil)
	first := <-r.d.sent
	if d := r.clock.step(); !about(d, time.Hour) {
		t.Errorf("first wait of %v", d)
	}
	<-first.link.done
	r.rest()
	r.dial(nil)
	second := <-r.d.sent
	if d := r.clock.step(); !about(d, time.Hour) {
		t.Errorf("second wait of %v", d)
	}
	<-second.link.done
	wantError(t, <-res, transport.Unknown, transport.ErrTimeout)
	if first.xid != second.xid || r.c.Stats().Timeouts != 2 {
		t.Errorf("XIDs %#x and %#x, %+v", first.xid, second.xid, r.c.Stats())
	}
}

func TestSoftCallFailsWithoutServer(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Soft: true})
	refused := errors.New("refused")
	res := r.call(t.Context())
	r.dial(refused)
	r.rest()
	<-r.d.dials // and this attempt hangs
	r.clock.advance(time.Hour)
	err := <-res
	wantError(t, err, transport.NotSent, transport.ErrTimeout)
	wantError(t, err, transport.NotSent, refused)
}

func TestContextEndsACall(t *testing.T) {
	r := newRig(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	res := r.call(ctx)
	ask := <-r.d.dials
	cancel()
	wantError(t, <-res, transport.NotSent, context.Canceled)
	ask <- nil
	ctx, cancel = context.WithCancel(t.Context())
	res = r.call(ctx)
	s := <-r.d.sent
	cancel()
	wantError(t, <-res, transport.Unknown, context.Canceled)
	if s.link.Err() != nil {
		t.Errorf("the link was lost: %v", s.link.Err())
	}
}

// TestFateIsRemembered: a call that was sent once may have been carried out,
// whatever becomes of it later.
func TestFateIsRemembered(t *testing.T) {
	r := newRig(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	res := r.call(ctx)
	r.dial(nil)
	(<-r.d.sent).link.lose(errLost)
	r.rest()
	<-r.d.dials
	cancel()
	wantError(t, <-res, transport.Unknown, context.Canceled)
}

func TestFinalErrors(t *testing.T) {
	r := newRig(t, Config{})
	own := errors.New("not found")
	for _, tc := range []struct {
		answer error
		fate   transport.Fate
		is     error
	}{
		{&transport.Error{Fate: transport.Answered, Err: transport.ErrProtocol}, transport.Answered, transport.ErrProtocol},
		{&transport.Error{Fate: transport.Answered, Err: own}, transport.Answered, own},
		{&transport.Error{Fate: transport.NotSent, Err: own}, transport.NotSent, own},
	} {
		res := r.call(t.Context())
		if r.c.Stats().Resends == 0 && tc.is == transport.ErrProtocol {
			r.dial(nil)
		}
		s := <-r.d.sent
		s.answer <- tc.answer
		wantError(t, <-res, tc.fate, tc.is)
	}
	if s := r.c.Stats(); s.Resends != 0 {
		t.Errorf("%+v", s)
	}
}

func TestLinksShareTheCalls(t *testing.T) {
	r := newRig(t, Config{NConnect: 3})
	if l := r.c.Limits(); l.Concurrent != 30 {
		t.Errorf("%+v", l)
	}
	var all []<-chan error
	for range 12 {
		all = append(all, r.call(t.Context()))
	}
	for range 3 {
		r.dial(nil)
	}
	xids, load := map[uint32]bool{}, map[*fakeLink]int{}
	var under []sent
	for range all {
		s := <-r.d.sent
		xids[s.xid] = true
		load[s.link]++
		under = append(under, s)
	}
	for range 6 {
		all = append(all, r.call(t.Context()))
		s := <-r.d.sent
		xids[s.xid] = true
		load[s.link]++
		under = append(under, s)
	}
	if len(xids) != 18 || len(load) != 3 {
		t.Errorf("%d XIDs, %d links", len(xids), len(load))
	}
	for _, s := range under {
		s.answer <- nil
	}
	for _, res := range all {
		if err := <-res; err != nil {
			t.Error(err)
		}
	}
}

func TestConnectReportsTheFirstAttempt(t *testing.T) {
	r := newRig(t, Config{})
	refused := errors.New("refused")
	res := make(chan error)
	connect := func(ctx context.Context) { res <- r.c.Connect(ctx) }
	go connect(t.Context())
	r.dial(refused)
	if err := <-res; !errors.Is(err, refused) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go connect(ctx)
	r.rest()
	ask := <-r.d.dials
	cancel()
	if err := <-res; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ask <- nil
	go connect(t.Context())
	if err := <-res; err != nil {
		t.Error(err)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	d := newDialer()
	c := New(d, Config{NConnect: 2})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- c.Call(t.Context(), &transport.Call{}) }()
	(<-d.dials) <- nil
	<-d.sent
	// The second call wants another link; while that is being made it goes
	// over the first.
	go func() { second <- c.Call(t.Context(), &transport.Call{}) }()
	<-d.sent
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, <-first, transport.Unknown, transport.ErrClosed)
	wantError(t, <-second, transport.Unknown, transport.ErrClosed)
	wantError(t, c.Call(t.Context(), &transport.Call{}), transport.NotSent, transport.ErrClosed)
	if err := c.Connect(t.Context()); !errors.Is(err, transport.ErrClosed) {
		t.Error(err)
	}
	noSlots(t)
}

// TestMachine walks every pair of state and event.
func TestMachine(t *testing.T) {
	good := map[string]state{
		"idle wanted": dialing, "idle stop": stopped,
		"dialing dialed": up, "dialing failed": pausing,
		"up lost": closing, "up stop": closing,
		"closing closed": pausing,
		"pausing rested": idle, "pausing stop": stopped,
	}
	for s := range numStates {
		for e := range numEvents {
			want, ok := good[fmt.Sprint(s, " ", e)]
			func() {
				defer func() {
					if p := recover(); (p == nil) != ok {
						t.Errorf("%v in %v: panic %v", e, s, p)
					}
				}()
				if got := s.after(e); got != want {
					t.Errorf("%v in %v leads to %v, want %v", e, s, got, want)
				}
			}()
		}
	}
}
