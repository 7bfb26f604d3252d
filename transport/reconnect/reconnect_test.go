package reconnect

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

var errLost = errors.New("lost")

func TestLossIsResentUnderTheSameXID(t *testing.T) {
	r := newRig(t, Config{})
	res := r.call(t.Context())
	r.dial(nil)
	first := <-r.d.sent
	if first.call.Resent {
		t.Error("resent before it was sent")
	}
	first.link.lose(errLost)
	r.wantLog("connection to srv lost: lost")
	r.rest()
	r.dial(nil)
	second := <-r.d.sent
	if !second.call.Resent {
		t.Error("not said to be resent")
	}
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

// TestPauseIsFromTheStart: an attempt that has taken as long as the pause is
// followed by the next at once.
func TestPauseIsFromTheStart(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour})
	res := r.call(t.Context())
	for range 9 {
		ask := <-r.d.dials
		r.clock.advance(2 * maxPause)
		ask <- errors.New("no answer")
	}
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
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

// TestLinkHasItsTime has a call come to a new link when it has nearly taken too
// long: the link is given as long for its answer as any.
func TestLinkHasItsTime(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 2})
	res := r.call(t.Context())
	r.dial(nil)
	(<-r.d.sent).link.lose(errLost)
	r.wantLog("connection to srv lost: lost")
	r.rest()
	ask := <-r.d.dials
	r.clock.advance(3*time.Hour - time.Minute)
	ask <- nil
	second := <-r.d.sent
	r.clock.advance(59 * time.Minute)
	r.c.mu.Lock()
	early := r.c.slots[0].condemned
	r.c.mu.Unlock()
	if early {
		t.Fatal("condemned before its time")
	}
	r.clock.advance(time.Minute)
	<-second.link.done
	r.wantLog("server srv not responding, still trying")
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
	if s := r.c.Stats(); s.Timeouts != 1 || s.Resends != 2 {
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

// TestGivenUpForSilence: a call of a hard mount whose caller has given up for want of an answer shows that the
// server is silent, like one that has taken too long, be it with a link or without; any other end of its context
// does not, and with a reply that is over.
func TestGivenUpForSilence(t *testing.T) {
	r := newRig(t, Config{})
	give := func(why error) (<-chan error, func()) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return r.call(ctx), func() { cancel(why) }
	}
	res, end := give(errors.New("interrupted"))
	ask := <-r.d.dials
	end()
	wantError(t, <-res, transport.NotSent, context.Canceled)
	if r.c.Silent() {
		t.Error("silent by an interrupted call")
	}
	for _, linked := range []bool{false, true} {
		res, end := give(transport.ErrTimeout)
		fate := transport.NotSent
		if linked {
			ask <- nil
			<-r.d.sent
			fate = transport.Unknown
		}
		end()
		wantError(t, <-res, fate, context.Canceled)
		r.wantLog("server srv not responding, still trying")
		if !r.c.Silent() || r.c.Health().SilentSince.IsZero() {
			t.Error("not silent")
		}
		if !linked {
			r.c.silent.Store(false)
		}
	}
	res = r.call(t.Context())
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil || r.c.Silent() {
		t.Errorf("%v, silent %t after a reply", err, r.c.Silent())
	}
	r.wantLog("server srv OK")
	r.c.SetPatience(Patience{Soft: true})
	res, end = give(transport.ErrTimeout)
	<-r.d.sent
	end()
	wantError(t, <-res, transport.Unknown, context.Canceled)
	if r.c.Silent() {
		t.Error("silent by a call of a soft mount")
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

// awaitLinks returns when n links are up: a dial that has been answered is a
// link only when its slot has taken it.
func (r *rig) awaitLinks(n int) {
	for {
		r.c.mu.Lock()
		up := 0
		for _, s := range r.c.slots {
			if s.usable() {
				up++
			}
		}
		changed := r.c.changed
		r.c.mu.Unlock()
		if up >= n {
			return
		}
		<-changed
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
	r.awaitLinks(3)
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
