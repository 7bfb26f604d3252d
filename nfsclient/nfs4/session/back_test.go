package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

func newBackRig(t *testing.T) *rig {
	return newRig(t, func(r *rig) { r.cf.Callbacks, r.cf.Binder = callback.New(callback.Config{}), new(Binder) })
}

// A back channel is asked for only if it is served, with the credential that callbacks are to carry.
func TestBackChannelAsked(t *testing.T) {
	t.Run("not served", func(t *testing.T) {
		r := newRig(t, nil)
		if r.v.asked.Flags != 0 || r.s.Info().BackChannel {
			t.Errorf("asked with flags %#x", r.v.asked.Flags)
		}
	})
	r := newBackRig(t)
	a := &r.v.asked
	if a.Flags != wire.SessionConnBackChan || !r.s.Info().BackChannel || a.CBProgram != wire.CallbackProgram || a.Back.MaxOps < 2 || a.Back.MaxRequest != 4096-28 ||
		len(a.SecParms) != 2 || a.SecParms[0].Flavor != wire.AuthSys || a.SecParms[0].Machine != "client" || a.SecParms[1].Flavor != wire.AuthNone {
		t.Errorf("asked for %+v", a)
	}
}

// sent is how often the server got an operation.
func (r *rig) sent(op wire.Op) (n int) {
	r.v.mu.Lock()
	defer r.v.mu.Unlock()
	for _, o := range r.v.log {
		if o == op.String() {
			n++
		}
	}
	return n
}

func (r *rig) raise(flags uint32) {
	r.v.mu.Lock()
	defer r.v.mu.Unlock()
	r.v.flags |= flags
}

// A connection is bound when the server says that it has none to call back on.
func TestPathDown(t *testing.T) {
	r := newBackRig(t)
	r.raise(wire.SeqCBPathDown | wire.SeqCBPathDownSession)
	r.must(remove("a"))
	r.await("the binding", func() bool { return slices.Contains(r.v.log, wire.OpBindConnToSession.String()) })
	r.must(remove("b"))
	r.once("a", "b")
	if n := r.sent(wire.OpCreateSession); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// Where no connection can be bound, and after a fault that no connection mends, the session is made anew. State stays.
func TestBackChannelFault(t *testing.T) {
	for name, test := range map[string]struct {
		flags  uint32
		strict bool
	}{
		"not bound": {wire.SeqCBPathDownSession, true},
		"fault":     {wire.SeqBackchannelFault, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newBackRig(t)
			epoch := r.s.Epoch()
			r.v.mu.Lock()
			r.v.strict = test.strict
			r.v.mu.Unlock()
			r.raise(test.flags)
			r.must(remove("a"))
			r.await("another session", func() bool {
				n := 0
				for _, o := range r.v.log {
					if o == wire.OpCreateSession.String() {
						n++
					}
				}
				return n == 2
			})
			r.must(remove("b"))
			r.once("a", "b")
			if r.s.Epoch() != epoch {
				t.Error("state was lost with the session")
			}
		})
	}
}

// While the fault stays, attempts to mend it become rare.
func TestPathStaysDown(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cf.Callbacks = callback.New(callback.Config{})
		r.v.script = func(c *wire.Compound) (d decision) {
			if c.Ops[0].Op() == wire.OpBindConnToSession {
				d.status = wire.ErrDelay
			}
			return d
		}
	})
	r.raise(wire.SeqCBPathDown)
	for i := range 20 {
		r.must(remove(string(rune('a' + i))))
	}
	r.await("an attempt", func() bool { return slices.Contains(r.v.log, wire.OpBindConnToSession.String()) })
	if n := r.sent(wire.OpBindConnToSession); n != 1 {
		t.Errorf("%d attempts at once", n)
	}
}

// A new connection is bound to both channels before anything else is sent over it.
func TestEstablish(t *testing.T) {
	r := newBackRig(t)
	var dirs []uint32
	call := func(ctx context.Context, q *transport.Call) error {
		r.v.script = func(c *wire.Compound) decision {
			if o, ok := c.Ops[0].(*wire.BindConnToSession); ok {
				dirs = append(dirs, o.Dir)
			}
			return decision{}
		}
		return r.v.Call(ctx, q)
	}
	if err := r.cf.Binder.Establish(r.ctx, call); err != nil || len(dirs) != 1 || dirs[0] != wire.BindForeOrBoth {
		t.Errorf("%v, directions %v", err, dirs)
	}
	// A session that the server does not know any more is not the connection's fault.
	r.v.mu.Lock()
	clear(r.v.sessions)
	r.v.mu.Unlock()
	if err := r.cf.Binder.Establish(r.ctx, call); err != nil {
		t.Error(err)
	}
}

// What the lease covers is relied upon no longer than it certainly lasts.
func TestLeased(t *testing.T) {
	var cut atomic.Bool
	r := newRig(t, func(r *rig) {
		r.cf.Callbacks = callback.New(callback.Config{})
		r.v.script = func(*wire.Compound) (d decision) {
			if cut.Load() {
				d.fault = notSent
			}
			return d
		}
	})
	if epoch, ok := r.s.Leased(); !ok || epoch != r.s.Epoch() {
		t.Errorf("at the beginning: %d, %v", epoch, ok)
	}
	cut.Store(true)
	r.clock.advance(r.s.Lease() + time.Second)
	if _, ok := r.s.Leased(); ok {
		t.Error("after a lease without an answer")
	}
	cut.Store(false)
	r.must(remove("a"))
	if _, ok := r.s.Leased(); !ok {
		t.Error("after an answer")
	}
}

// Nothing is relied upon while the server says that it cannot call back, or has revoked state; nor is a reply to a
// request that was sent before it said so taken for the end of that.
func TestLeasedDoubted(t *testing.T) {
	for _, flag := range []uint32{wire.SeqCBPathDown, wire.SeqCBPathDownSession, wire.SeqBackchannelFault, wire.SeqRecallableStateRevoked,
		wire.SeqExpiredSomeStateRevoked, wire.SeqAdminStateRevoked} {
		s := &Session{cf: Config{Clock: newClock()}, lease: time.Minute, cur: &incarnation{back: true}}
		clock := s.cf.Clock.(*clock)
		s.renewed = clock.Now()
		note := func(flags uint32, sent time.Time) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.noteDoubt(s.cur, flags, sent)
		}
		leased := func(want bool, when string) {
			t.Helper()
			if _, ok := s.Leased(); ok != want {
				t.Errorf("flag %#x, %s: %v", flag, when, ok)
			}
		}
		leased(true, "at the beginning")
		early := clock.Now()
		clock.advance(time.Second)
		note(flag, early)
		leased(false, "seen")
		note(0, early)
		leased(false, "after an older reply")
		clock.advance(time.Second)
		note(0, clock.Now())
		leased(true, "after a newer reply")
	}
	s := &Session{cf: Config{Clock: newClock()}, lease: time.Minute, cur: &incarnation{}}
	s.renewed = s.cf.Clock.Now()
	if _, ok := s.Leased(); ok {
		t.Error("without a back channel")
	}
}

// TestPathDownDoubts is TestLeasedDoubted with the flag of a reply.
func TestPathDownDoubts(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cf.Callbacks = callback.New(callback.Config{})
		r.v.script = func(c *wire.Compound) (d decision) {
			if c.Ops[0].Op() == wire.OpBindConnToSession {
				d.status = wire.ErrDelay // which leaves the path down
			}
			return d
		}
	})
	r.raise(wire.SeqCBPathDown)
	r.must(remove("a"))
	if _, ok := r.s.Leased(); ok {
		t.Error("relied upon while the path is down")
	}
	r.v.mu.Lock()
	r.v.flags = 0
	r.v.mu.Unlock()
	r.must(remove("b"))
	if _, ok := r.s.Leased(); !ok {
		t.Error("not relied upon though the path is up again")
	}
}

func TestLimitSlots(t *testing.T) {
	r := newBackRig(t)
	r.s.LimitSlots(2)
	if n := r.s.Info().Slots; n != 3 {
		t.Errorf("%d slots", n)
	}
	r.s.LimitSlots(1<<32 - 1)
	if n := r.s.Info().Slots; n != 3 {
		t.Errorf("%d slots", n)
	}
}

// A new session renews the lease from when it was asked for: its reply may come long after the server has made it.
func TestLeasedSinceAsked(t *testing.T) {
	var asked atomic.Bool
	var first sync.Once
	relied := make(chan bool, 1)
	r := newRig(t, func(r *rig) {
		r.cf.Callbacks = callback.New(callback.Config{})
		r.v.script = func(c *wire.Compound) decision {
			switch c.Ops[0].(type) {
			case *wire.CreateSession:
				if r.s != nil {
					r.clock.advance(r.s.Lease() + time.Second)
					asked.Store(true)
				}
			case *wire.Sequence:
				if asked.Load() { // the renewal, or the call: nothing was answered yet
					first.Do(func() {
						_, ok := r.s.Leased()
						relied <- ok
					})
				}
			}
			return decision{}
		}
	})
	r.v.mu.Lock()
	clear(r.v.sessions)
	r.v.mu.Unlock()
	r.must(remove("a"))
	if <-relied {
		t.Error("relied upon for longer than a lease after the request")
	}
}
