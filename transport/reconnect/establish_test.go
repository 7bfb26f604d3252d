package reconnect

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
)

// binding is what a test has to be called first on each link.
func binding(ctx context.Context, call func(context.Context, *transport.Call) error) error {
	return call(ctx, &transport.Call{Prog: 9, Proc: 44})
}

// TestEstablish: nothing goes over a link, be it the first or one after a loss,
// before what must come first was answered.
func TestEstablish(t *testing.T) {
	d := newDialer()
	d.first = 1
	r := newRigOver(t, d, Config{Establish: binding})
	res := r.call(t.Context())
	r.dial(nil)
	var xid uint32
	for i := range 2 {
		bind := <-r.d.sent
		if bind.call.Proc != 44 || bind.xid == xid {
			t.Errorf("link %d begins with procedure %d under XID %#x", i, bind.call.Proc, bind.xid)
		}
		if len(r.d.sent) > 0 {
			t.Error("a call was sent before the link was established")
		}
		bind.answer <- nil
		s := <-r.d.sent
		if s.call.Prog != 1 || i > 0 && s.xid != xid {
			t.Errorf("then came %+v under XID %#x, want %#x", s.call, s.xid, xid)
		}
		xid = s.xid
		if i == 0 {
			s.link.lose(errLost)
			r.wantLog("connection to srv lost: lost")
			r.rest()
			r.dial(nil)
			continue
		}
		s.answer <- nil
	}
	if err := <-res; err != nil {
		t.Error(err)
	}
}

// TestEstablishFails: a link on which what must come first fails, or is refused,
// is not used, and the next one comes after the pause of a failed attempt.
func TestEstablishFails(t *testing.T) {
	r := newRig(t, Config{Establish: binding})
	res := r.call(t.Context())
	refused := &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Code: 1}}
	for _, answer := range []error{errLost, refused} {
		r.dial(nil)
		bind := <-r.d.sent
		bind.answer <- answer
		<-bind.link.done
		r.rest()
	}
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	s := <-r.d.sent
	if s.call.Prog != 1 {
		t.Errorf("then came %+v", s.call)
	}
	s.answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
}

// TestEstablishOfConnect: who asks for a link is told why it was not established.
func TestEstablishOfConnect(t *testing.T) {
	own := errors.New("session expired")
	r := newRig(t, Config{Establish: func(context.Context, func(context.Context, *transport.Call) error) error { return own }})
	res := make(chan error, 1)
	go func() { res <- r.c.Connect(t.Context()) }()
	r.dial(nil)
	if err := <-res; !errors.Is(err, own) {
		t.Error(err)
	}
}

// TestRedial: calls that are outstanding when the links are ended go over a new one, which is
// established first.
func TestRedial(t *testing.T) {
	r := newRig(t, Config{Establish: binding})
	res := r.call(t.Context())
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	s := <-r.d.sent
	r.c.Redial()
	<-s.link.done
	r.rest()
	r.dial(nil)
	bind := <-r.d.sent
	if bind.call.Proc != 44 {
		t.Errorf("the new link begins with procedure %d", bind.call.Proc)
	}
	bind.answer <- nil
	again := <-r.d.sent
	if again.xid != s.xid || !again.call.Resent {
		t.Errorf("XID %#x, resent %v, want %#x", again.xid, again.call.Resent, s.xid)
	}
	again.answer <- nil
	if err := <-res; err != nil {
		t.Error(err)
	}
}
