package reconnect

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// TestProbe: while a call waits, a NULL call of its program tries the link again
// and again, one at a time. One that is not answered condemns nothing.
func TestProbe(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 2, Probe: time.Second})
	var all []<-chan error
	for range 20 {
		all = append(all, r.call(t.Context()))
	}
	r.dial(nil)
	var waiting []sent
	for range all {
		waiting = append(waiting, <-r.d.sent)
	}
	for range 3 {
		r.clock.advance(time.Second)
		null := <-r.d.sent
		if null.call.Prog != 1 || null.call.Proc != 0 || null.call.Args != nil || null.overdue {
			t.Errorf("probed with %+v", null.call)
		}
		null.answer <- nil
		r.awaitProbed()
	}
	r.clock.advance(time.Second)
	<-r.d.sent
	for range 10 {
		r.clock.advance(time.Second)
	}
	if n := len(r.d.sent); n > 0 {
		t.Errorf("%d more calls while a probe is under way", n)
	}
	r.c.mu.Lock()
	if r.c.slots[0].condemned {
		t.Error("condemned")
	}
	r.c.mu.Unlock()
	for _, s := range waiting {
		s.answer <- nil
	}
	for _, res := range all {
		if err := <-res; err != nil {
			t.Error(err)
		}
	}
	// Nobody waits: nothing is due.
	for range 10 {
		r.clock.advance(time.Second)
	}
	if n := len(r.d.sent); n > 0 {
		t.Errorf("%d probes for nobody", n)
	}
}

// awaitProbed returns when no NULL call is outstanding.
func (r *rig) awaitProbed() {
	for {
		r.c.mu.Lock()
		s := r.c.slots[0]
		idle := s.probed == nil && !s.examining
		r.c.mu.Unlock()
		if idle {
			return
		}
		runtime.Gosched()
	}
}

// TestStalledLinkIsReplaced: what waits on a link by which nothing gets through is
// sent again on another, as calls that are not overdue.
func TestStalledLinkIsReplaced(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 2, Probe: time.Second})
	res := r.call(t.Context())
	r.dial(nil)
	first := <-r.d.sent
	r.clock.advance(time.Second)
	null := <-r.d.sent
	first.link.stall()
	r.clock.advance(time.Second)
	<-first.link.done
	r.wantLog("connection to srv is stalled, trying another: no acknowledgements")
	r.dial(nil)
	again := <-r.d.sent
	if again.xid != first.xid || again.overdue || again.xid == null.xid {
		t.Errorf("XID %#x, overdue %v; first sent under %#x", again.xid, again.overdue, first.xid)
	}
	again.answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
	if s := r.c.Stats(); s.Timeouts != 0 || s.Resends != 1 {
		t.Errorf("%+v", s)
	}
}

// TestOneSlotTries: while there is no connection, one slot of several tries to
// make one, and the others follow it.
func TestOneSlotTries(t *testing.T) {
	r := newRig(t, Config{Timeo: 10000 * time.Hour, NConnect: 4})
	res := make(chan error)
	call := func() { res <- r.c.Call(t.Context(), &transport.Call{Prog: 1}) }
	waiting := 16
	for range waiting {
		go call()
	}
	refuse := func(n int) {
		for n > 0 {
			select {
			case ask := <-r.d.dials:
				ask <- errors.New("refused")
				n--
			case <-r.clock.set:
				r.clock.advance(2 * maxPause)
			}
		}
	}
	refuse(20)
	r.c.mu.Lock()
	for i, s := range r.c.slots[1:] {
		if s.attempts > 2 {
			t.Errorf("slot %d tried %d times", i+1, s.attempts)
		}
	}
	r.c.mu.Unlock()
	up := make(map[transport.Link]bool)
	for waiting > 0 {
		select {
		case ask := <-r.d.dials:
			ask <- nil
		case <-r.clock.set:
			r.clock.advance(2 * maxPause)
		case s := <-r.d.sent:
			up[s.link] = true
			s.answer <- nil
		case err := <-res:
			if err != nil {
				t.Error(err)
			}
			if len(up) == 4 {
				waiting--
			} else {
				go call()
			}
		}
	}
}
