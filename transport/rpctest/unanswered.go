package rpctest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// NewCallerWith starts a server for h and returns a Caller of cfg that reaches it
// over one link; both end with the test t.
type NewCallerWith func(t *testing.T, h transport.Handler, cfg reconnect.Config) transport.Caller

// timeo is that of the Callers of RunUnanswered, by their own clock.
const timeo = time.Minute

// guardTime ends a test that hangs; no assertion depends on it.
const guardTime = 2 * time.Minute

// RunUnanswered is a suite of calls that a live server does not answer, while it
// answers others. Time passes only when a test advances the clock: a call that
// waited for a timeout would hang.
func RunUnanswered(t *testing.T, newCaller NewCallerWith) {
	for _, s := range []struct {
		name string
		f    func(*env, *Clock)
	}{
		{"Overdue", testOverdue},
		{"AllOverdue", testAllOverdue},
		{"Abandoned", testAbandoned},
	} {
		t.Run(s.name, func(t *testing.T) {
			clock := newClock()
			run(t, func(t *testing.T, h transport.Handler) (transport.Caller, func()) {
				return newCaller(t, h, reconnect.Config{Server: "suite", Timeo: timeo, Retrans: 2, Clock: clock}), nil
			}, func(e *env) { s.f(e, clock) })
		})
	}
}

// holding makes calls that the server delays, until ctx ends or it releases them.
type holding struct {
	e    *env
	wins []window
	all  sync.WaitGroup
}

func (e *env) hold(ctx context.Context, n int) *holding {
	h := &holding{e: e, wins: e.split(n)}
	for i := range n {
		h.all.Go(func() {
			v := h.wins[i].vec(1000, 1)
			err := e.c.Call(ctx, getCall(procHold, v, 1000, uint32(i)))
			if ctx.Err() == nil {
				e.check(err, "call %d, let go", i)
				e.check(gotten(h.wins[i], v, 1000, uint32(i)), "its payload")
			} else if !errors.Is(err, context.Canceled) {
				e.Errorf("call %d, given up: %v", i, err)
			}
		})
	}
	return h
}

// arrivals awaits n calls and returns their XIDs.
func (e *env) arrivals(n int) map[uint32]bool {
	e.Helper()
	xids := map[uint32]bool{}
	for len(xids) < n {
		select {
		case xid := <-e.p.arrived:
			xids[xid] = true
		case <-time.After(guardTime):
			e.Fatalf("%d of %d calls have come to the server, and no more do", len(xids), n)
		}
	}
	return xids
}

// answered makes a call that the server answers.
func (e *env) answered(when string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), guardTime)
	defer cancel()
	if err := null(ctx, e.c); err != nil {
		e.Fatalf("a call %s: %v", when, err)
	}
}

// testOverdue: after each timeout every unanswered call is resent, and other calls are
// answered meanwhile.
func testOverdue(e *env, clock *Clock) {
	const calls, rounds = 8, 3
	e.answered("before")
	h := e.hold(e.Context(), calls)
	first := e.arrivals(calls)
	for range rounds {
		e.answered("among unanswered ones")
		clock.advance(3 * timeo)
		for xid := range e.arrivals(calls) {
			if !first[xid] {
				e.Errorf("sent again under XID %#x", xid)
			}
		}
	}
	e.answered("among overdue ones")
	if s := e.c.Stats(); s.Connects != 1+rounds || s.Timeouts != calls*rounds || s.Resends != calls*rounds {
		e.Errorf("%+v", s)
	}
	close(e.p.release)
	h.all.Wait()
}

// testAllOverdue: as many calls as may be outstanding are not answered. They take all
// credits until the first timeout; after it, other calls are answered at once.
func testAllOverdue(e *env, clock *Clock) {
	e.answered("before")
	n := e.c.Limits().Concurrent
	h := e.hold(e.Context(), n)
	e.arrivals(n)
	for range 2 {
		clock.advance(3 * timeo)
		e.arrivals(n / 2) // as many as the transport finds right, at the least
		for range 3 {
			e.answered("among as many overdue ones as may be under way")
		}
	}
	close(e.p.release)
	h.all.Wait()
}

// testAbandoned: cancelled calls, as many as may be outstanding, delay no other.
func testAbandoned(e *env, _ *Clock) {
	e.answered("before")
	n := e.c.Limits().Concurrent
	for range 2 {
		ctx, giveUp := context.WithCancel(e.Context())
		h := e.hold(ctx, n)
		e.arrivals(n)
		giveUp()
		h.all.Wait()
		for range 3 {
			e.answered("after as many were given up as may be under way")
		}
	}
	close(e.p.release)
}
