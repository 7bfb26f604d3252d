package reconnect

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// TestOverdue: the call that a link was condemned for is overdue from then on, and
// the other one on that link is not.
func TestOverdue(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 9})
	first := r.call(t.Context())
	r.dial(nil)
	a := <-r.d.sent
	r.clock.advance(time.Minute)
	second := r.call(t.Context())
	b := <-r.d.sent
	if a.overdue || b.overdue {
		t.Error("overdue from the first")
	}
	r.clock.advance(59 * time.Minute)
	for range 2 {
		<-a.link.done
		r.dial(nil)
		x, y := <-r.d.sent, <-r.d.sent
		if x.xid != a.xid {
			x, y = y, x
		}
		if x.xid != a.xid || y.xid != b.xid || !x.overdue || y.overdue {
			t.Errorf("XID %#x overdue %v, %#x overdue %v; want %#x and not %#x", x.xid, x.overdue, y.xid, y.overdue, a.xid, b.xid)
		}
		a, b = x, y
		a.link.lose(errLost)
		r.wantLog("connection to srv lost: lost")
		r.rest()
	}
	r.dial(nil)
	for range 2 {
		(<-r.d.sent).answer <- nil
	}
	for _, res := range []<-chan error{first, second} {
		if err := <-res; err != nil {
			t.Error(err)
		}
	}
}

// TestGreeting: every link but the first carries a NULL call of the program before
// any other, and is none before that is answered.
func TestGreeting(t *testing.T) {
	d := newDialer()
	d.first = 1
	r := newRigOver(t, d, Config{Timeo: time.Hour})
	call := func() <-chan error {
		res := make(chan error, 1)
		go func() { res <- r.c.Call(context.Background(), &transport.Call{Prog: 7, Vers: 3, Proc: 1}) }()
		return res
	}
	res := call()
	r.dial(nil)
	s := <-r.d.sent
	if s.call.Proc != 1 {
		t.Errorf("the first link begins with procedure %d", s.call.Proc)
	}
	refused := &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Code: 1}}
	for i, answer := range []error{nil, refused} {
		s.link.lose(errLost)
		r.wantLog("connection to srv lost: lost")
		r.rest()
		r.dial(nil)
		null := <-r.d.sent
		if null.call.Prog != 7 || null.call.Vers != 3 || null.call.Proc != 0 || null.xid == s.xid {
			t.Errorf("link %d begins with %+v under XID %#x, that of the call is %#x", i, null.call, null.xid, s.xid)
		}
		if len(r.d.sent) > 0 {
			t.Error("the call was sent before the greeting was answered")
		}
		null.answer <- answer
		s = <-r.d.sent
		if s.call.Proc != 1 {
			t.Errorf("then came procedure %d", s.call.Proc)
		}
	}
	// A greeting that fails costs the link, with the pause of a failed attempt.
	s.link.lose(errLost)
	r.wantLog("connection to srv lost: lost")
	for range 2 {
		r.rest()
		r.dial(nil)
		null := <-r.d.sent
		null.answer <- &transport.Error{Fate: transport.Answered, Err: transport.ErrProtocol}
		<-null.link.done
	}
	r.rest()
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
}
