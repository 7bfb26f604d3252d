package rpcrdma

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestCallerReceives: calls one after the other are received by their callers. Each time that the reaper has taken over, because
// this test got no time to run, it receives one reply at most.
func TestCallerReceives(t *testing.T) {
	const calls, size = 500, 4096
	s := startServerWith(t, ServerConfig{}, benchHandler{})
	r := dialPeer(t, s.addr, nil)
	c := fillCall(mem.Vec{r.arena.Seg(0, size)}, size, new(int))
	for range calls {
		if err := r.do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	led, attended := r.turn.Led(), r.turn.Attended()
	t.Logf("%d calls: callers received %d times, the reaper took over %d times", calls, led, attended)
	if led+attended < calls {
		t.Errorf("%d calls, but their callers received only %d times; the reaper took over %d times", calls, led, attended)
	}
}

// TestIdleLinkEnds: a link that nobody uses notices its end.
func TestIdleLinkEnds(t *testing.T) {
	const size = 4096
	s := startServerWith(t, ServerConfig{}, benchHandler{})
	r := dialPeer(t, s.addr, nil)
	c := fillCall(mem.Vec{r.arena.Seg(0, size)}, size, new(int))
	if err := r.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-r.Done()
}

// TestLinkEndsUnderLeader: when the link ends, the caller that receives and those that wait for the turn fail.
func TestLinkEndsUnderLeader(t *testing.T) {
	const callers = 8
	hold := make(chan struct{})
	arrived := make(chan struct{}, callers)
	s := startServerWith(t, ServerConfig{}, holdHandler{arrived, hold})
	r := dialPeer(t, s.addr, nil)
	// The first call settles how many there may be at once.
	if err := r.do(t.Context(), &transport.Call{Prog: 1, Vers: 1}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			err := r.Exchange(t.Context(), uint32(0x2000+i), &transport.Call{Prog: 1, Vers: 1, Proc: 1})
			var te *transport.Error
			if !errors.As(err, &te) || te.Fate != transport.Unknown {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	for range callers {
		<-arrived
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	close(hold)
}

// holdHandler answers procedure 0, and other calls when hold is closed.
type holdHandler struct{ arrived, hold chan struct{} }

func (h holdHandler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Proc != 0 {
		h.arrived <- struct{}{}
		select {
		case <-h.hold:
		case <-ctx.Done():
		}
	}
	return transport.Success
}
