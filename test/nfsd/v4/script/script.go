package script

import (
	"context"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/back"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/transport"
)

// Server is what a Script works on, an *nfsd.Server.
type Server interface {
	State() *state.Machine
	Back() *back.Caller
	// Cut ends all connections, and closes done then.
	Cut() (done <-chan struct{})
}

// Script is what a server is to do wrong. It may be changed at any time. It is made before its
// server, which must be attached before Do is used.
type Script struct {
	mu     sync.Mutex
	server Server
	rules  []*rule
	// delays is how many operations of each kind are put off with ErrDelay; asked counts
	// them.
	delays int
	asked  map[wire.Op]int
	struck int
	// offload: a COPY goes on after its answer if it may.
	offload bool
}

// verb is what a rule does.
type verb int

const (
	fail verb = iota
	loseCall
	loseReply
	hold
)

// rule strikes some operations of a kind.
type rule struct {
	verb verb
	op   wire.Op
	skip int // how many pass first
	left int // how many it strikes then
	// status is that of fail; entered and release are of hold.
	status           wire.Status
	entered, release chan struct{}
}

// New makes a Script that does nothing yet.
func New() *Script { return &Script{asked: map[wire.Op]int{}} }

// Attach gives the Script its server.
func (s *Script) Attach(srv Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = srv
}

// attached is the server.
func (s *Script) attached() Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// Clear has all be well again. Who is held goes on.
func (s *Script) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		if r.release != nil {
			close(r.release)
		}
	}
	s.rules, s.delays, s.offload = nil, 0, false
}

// Struck is how often a rule was applied.
func (s *Script) Struck() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.struck
}

func (s *Script) add(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, r)
}

// Fail answers the nth op from now, counted from 1, and those after it, count in all, with a status
// instead of carrying them out.
func (s *Script) Fail(op wire.Op, st wire.Status, nth, count int) {
	s.add(&rule{verb: fail, op: op, status: st, skip: nth - 1, left: count})
}

// LoseCall loses the nth COMPOUND with op before it is carried out, and all connections with it.
func (s *Script) LoseCall(op wire.Op, nth int) {
	s.add(&rule{verb: loseCall, op: op, skip: nth - 1, left: 1})
}

// LoseReply has the nth COMPOUND with op carried out, and loses its reply, and all connections
// with it.
func (s *Script) LoseReply(op wire.Op, nth int) {
	s.add(&rule{verb: loseReply, op: op, skip: nth - 1, left: 1})
}

// Hold has the nth op wait. entered is closed when it does; release, or Clear, lets it go on.
func (s *Script) Hold(op wire.Op, nth int) (entered <-chan struct{}, release func()) {
	r := &rule{verb: hold, op: op, skip: nth - 1, left: 1, entered: make(chan struct{}), release: make(chan struct{})}
	s.add(r)
	return r.entered, func() { s.remove(r) }
}

// remove ends a rule that holds.
func (s *Script) remove(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.rules {
		if o == r {
			s.rules = append(s.rules[:i:i], s.rules[i+1:]...)
			close(r.release)
			return
		}
	}
}

// Delays has the next n operations of each kind, but those that never may, answered with ErrDelay;
// 0 ends that.
func (s *Script) Delays(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delays = n
	clear(s.asked)
}

// AsyncCopy has copies that may go on after the answer to COPY do so.
func (s *Script) AsyncCopy(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offload = on
}

// Offload is for nfsd.Faults.Offload.
func (s *Script) Offload() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offload
}

// mayDelay reports whether an operation may be answered with ErrDelay (RFC 8881 section 15.2).
func mayDelay(op wire.Op) bool {
	switch op {
	case wire.OpSequence, wire.OpGetFH, wire.OpSaveFH, wire.OpRestoreFH:
		return false
	}
	return true
}

// strike finds the rule for an operation, and counts it.
func (s *Script) strike(op wire.Op, verbs ...verb) *rule {
	for _, r := range s.rules {
		if r.op != op || r.left == 0 {
			continue
		}
		for _, v := range verbs {
			if r.verb != v {
				continue
			}
			if r.skip > 0 {
				r.skip--
				continue
			}
			r.left--
			s.struck++
			return r
		}
	}
	return nil
}

// Operation is for nfsd.Faults.Operation.
func (s *Script) Operation(ctx context.Context, o wire.Operation) wire.Status {
	s.mu.Lock()
	r := s.strike(o.Op(), fail, hold)
	delay := false
	if s.delays > 0 && mayDelay(o.Op()) {
		s.asked[o.Op()]++
		delay = s.asked[o.Op()] <= s.delays
		if delay {
			s.struck++
		}
	}
	s.mu.Unlock()
	switch {
	case r != nil && r.verb == hold:
		close(r.entered)
		select {
		case <-r.release:
		case <-ctx.Done():
		}
	case r != nil:
		return r.status
	}
	if delay {
		return wire.ErrDelay
	}
	return wire.OK
}

type handler struct {
	*Script
	next transport.Handler
}

// Wrap is for nfsd.Config.Wrap.
func (s *Script) Wrap(h transport.Handler) transport.Handler { return handler{s, h} }

func (h handler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	switch h.lost(q) {
	case loseCall:
		h.attached().Cut()
		return transport.NoReply
	case loseReply:
		h.next.Serve(ctx, q)
		h.attached().Cut()
		return transport.NoReply
	}
	return h.next.Serve(ctx, q)
}

// lost says what is to become of a call: loseCall, loseReply, or nothing of the kind.
func (h handler) lost(q *transport.Request) verb {
	h.mu.Lock()
	defer h.mu.Unlock()
	any := false
	for _, r := range h.rules {
		any = any || r.left > 0 && (r.verb == loseCall || r.verb == loseReply)
	}
	if !any || q.Prog != wire.Program || q.Vers != wire.Version || q.Proc != wire.ProcCompound {
		return fail
	}
	var c wire.Compound
	v4.Peek(q, &c)
	for _, o := range c.Ops {
		if r := h.strike(o.Op(), loseCall, loseReply); r != nil {
			return r.verb
		}
	}
	return fail
}

// Recall recalls all delegations, and says how many there are.
func (s *Script) Recall() int { return s.attached().State().Recall("") }

// Expire takes all clients' records, as after a lease of silence.
func (s *Script) Expire() (n int) {
	m := s.attached().State()
	for _, id := range m.Clients() {
		if m.Expire(id) {
			n++
		}
	}
	return n
}

// ExpireState takes what all clients hold, and leaves them their sessions.
func (s *Script) ExpireState() (n int) {
	m := s.attached().State()
	for _, id := range m.Clients() {
		n += m.ExpireState(id)
	}
	return n
}

// Revoke takes all opens and locks, as an administrator would.
func (s *Script) Revoke() int { return s.attached().State().RevokeFile("") }

// Slots sets how many slots a session may have.
func (s *Script) Slots(n uint32) { s.attached().State().SetSlots(n) }

// Restart has the server forget its clients, as after a crash, and ends all connections. No data
// is lost.
func (s *Script) Restart(grace bool) {
	srv := s.attached()
	srv.State().Restart(grace)
	<-srv.Cut()
}
