package script

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/back"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// server is a Server that counts what becomes of calls.
type server struct {
	m       *state.Machine
	b       *back.Caller
	cuts    int
	carried int
}

func (s *server) State() *state.Machine { return s.m }
func (s *server) Back() *back.Caller    { return s.b }
func (s *server) Cut() <-chan struct{} {
	s.cuts++
	done := make(chan struct{})
	close(done)
	return done
}

func (s *server) Serve(context.Context, *transport.Request) transport.AcceptStat {
	s.carried++
	return transport.Success
}

func newServer(t *testing.T) (*Script, *server) {
	srv := &server{b: back.New(back.Config{Timeout: time.Second})}
	srv.m = state.New(state.Config{Delegations: true, Callback: srv.b.Tell, Ended: srv.b.Ended})
	srv.b.Start(srv.m)
	t.Cleanup(srv.b.Close)
	s := New()
	s.Attach(srv)
	return s, srv
}

// call has h serve a compound of ops.
func call(h transport.Handler, ops ...wire.Operation) transport.AcceptStat {
	var args, reply xdr.Writer
	c := wire.Compound{Minor: 1, Ops: ops}
	c.AppendArgs(&args)
	var r xdr.Reader
	r.Reset(args.Bytes(), nil)
	return h.Serve(context.Background(), &transport.Request{Prog: wire.Program, Vers: wire.Version, Proc: wire.ProcCompound, Args: &r, Reply: &reply})
}

func TestFail(t *testing.T) {
	s, _ := newServer(t)
	if err := s.Do("fail REMOVE NFS4ERR_NOENT 2 3"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []wire.Status{wire.OK, nfsclient.ErrNoEnt, nfsclient.ErrNoEnt, nfsclient.ErrNoEnt, wire.OK} {
		if st := s.Operation(t.Context(), &wire.Remove{}); st != want {
			t.Errorf("REMOVE %d: %v", i+1, st)
		}
		if st := s.Operation(t.Context(), &wire.Rename{}); st != wire.OK {
			t.Errorf("RENAME %d: %v", i+1, st)
		}
	}
	if n := s.Struck(); n != 3 {
		t.Errorf("struck %d times", n)
	}
	s.Fail(wire.OpRemove, wire.ErrDelay, 1, 1)
	s.Clear()
	if st := s.Operation(t.Context(), &wire.Remove{}); st != wire.OK {
		t.Errorf("after clear: %v", st)
	}
}

func TestDelays(t *testing.T) {
	s, _ := newServer(t)
	if err := s.Do("delay 2"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []wire.Status{wire.ErrDelay, wire.ErrDelay, wire.OK} {
		for _, o := range []wire.Operation{&wire.Remove{}, &wire.GetAttr{}} {
			if st := s.Operation(t.Context(), o); st != want {
				t.Errorf("%v %d: %v", o.Op(), i+1, st)
			}
		}
		for _, o := range []wire.Operation{&wire.Sequence{}, &wire.GetFH{}, &wire.SaveFH{}, &wire.RestoreFH{}} {
			if st := s.Operation(t.Context(), o); st != wire.OK {
				t.Errorf("%v: %v, which it never may", o.Op(), st)
			}
		}
	}
}

func TestLose(t *testing.T) {
	s, srv := newServer(t)
	h := s.Wrap(srv)
	if err := s.Do("lose-call REMOVE 2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Do("lose-reply LINK"); err != nil {
		t.Fatal(err)
	}
	remove, link := &wire.Remove{Name: "x"}, &wire.Link{Name: "x"}
	for i, step := range []struct {
		op            wire.Operation
		stat          transport.AcceptStat
		carried, cuts int
	}{
		{remove, transport.Success, 1, 0},
		{remove, transport.NoReply, 1, 1},
		{remove, transport.Success, 2, 1},
		{link, transport.NoReply, 3, 2},
		{link, transport.Success, 4, 2},
	} {
		stat := call(h, &wire.PutRootFH{}, step.op)
		if stat != step.stat || srv.carried != step.carried || srv.cuts != step.cuts {
			t.Errorf("step %d: accept_stat %d, %d carried out, connections cut %d times", i+1, stat, srv.carried, srv.cuts)
		}
	}
}

// A compound that cannot be parsed is the server's to refuse.
func TestLoseGarbage(t *testing.T) {
	s, srv := newServer(t)
	s.LoseCall(wire.OpRemove, 1)
	var r xdr.Reader
	r.Reset([]byte{0, 0, 0, 9}, nil)
	q := &transport.Request{Prog: wire.Program, Vers: wire.Version, Proc: wire.ProcCompound, Args: &r, Reply: new(xdr.Writer)}
	if s.Wrap(srv).Serve(t.Context(), q); srv.carried != 1 {
		t.Error("not handed on")
	}
	if r.Remaining() != 4 {
		t.Error("the arguments were consumed")
	}
}

func TestHold(t *testing.T) {
	s, _ := newServer(t)
	entered, release := s.Hold(wire.OpRemove, 1)
	done := make(chan wire.Status)
	go func() { done <- s.Operation(context.Background(), &wire.Remove{}) }()
	<-entered
	select {
	case <-done:
		t.Error("not held")
	default:
	}
	release()
	release() // once more does nothing
	if st := <-done; st != wire.OK {
		t.Error(st)
	}
	// One that is given up goes on.
	entered, _ = s.Hold(wire.OpRemove, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Operation(ctx, &wire.Remove{}) }()
	<-entered
	cancel()
	<-done
}

// client makes a client with an open file, for orders about state.
func client(t *testing.T, m *state.Machine) (id wire.ClientID, sequence func() (*wire.Sequence, wire.Status)) {
	t.Helper()
	p := state.Peer{Principal: "sys:0", Minor: 1}
	ex := &wire.ExchangeID{Owner: []byte("o")}
	ch := wire.Channel{MaxRequest: 4096, MaxResponse: 4096, MaxOps: 8, MaxRequests: 8}
	if st := m.ExchangeID(p, nil, ex); st != wire.OK {
		t.Fatal(st)
	}
	cs := &wire.CreateSession{ClientID: ex.ClientID, SequenceID: ex.SequenceID, Fore: ch}
	if st := m.CreateSession(p, nil, cs); st != wire.OK {
		t.Fatal(st)
	}
	seq := uint32(0)
	begin := func() (*state.Call, *wire.Sequence, wire.Status) {
		seq++
		a := &wire.Sequence{Session: cs.Session, SequenceID: seq}
		c, st := m.Sequence(p, a, state.Compound{Ops: 1})
		return c, a, st
	}
	c, _, _ := begin()
	m.ReclaimComplete(c, &wire.ReclaimComplete{})
	if st := m.Open(c, &wire.Open{Access: wire.ShareRead, Claim: wire.ClaimFH}, state.Opening{File: "f"}); st != wire.OK {
		t.Fatal(st)
	}
	c.End(nil)
	return ex.ClientID, func() (*wire.Sequence, wire.Status) {
		c, a, st := begin()
		if st == wire.OK {
			c.End(nil)
		}
		return a, st
	}
}

func TestStateOrders(t *testing.T) {
	for line, check := range map[string]func(t *testing.T, srv *server, a *wire.Sequence, st wire.Status){
		"expire": func(t *testing.T, srv *server, _ *wire.Sequence, st wire.Status) {
			if st != wire.ErrBadSession || len(srv.m.Clients()) != 0 {
				t.Error(st)
			}
		},
		"expire-state": func(t *testing.T, _ *server, a *wire.Sequence, st wire.Status) {
			if st != wire.OK || a.StatusFlags != wire.SeqExpiredAllStateRevoked {
				t.Errorf("%v %x", st, a.StatusFlags)
			}
		},
		"revoke": func(t *testing.T, _ *server, a *wire.Sequence, st wire.Status) {
			if st != wire.OK || a.StatusFlags != wire.SeqAdminStateRevoked {
				t.Errorf("%v %x", st, a.StatusFlags)
			}
		},
		"slots 2": func(t *testing.T, _ *server, a *wire.Sequence, st wire.Status) {
			if st != wire.OK || a.TargetHighestSlot != 1 {
				t.Errorf("%v %+v", st, a)
			}
		},
		"restart grace": func(t *testing.T, srv *server, _ *wire.Sequence, st wire.Status) {
			if st != wire.ErrBadSession || !srv.m.InGrace() || srv.cuts != 1 {
				t.Errorf("%v, cut %d times", st, srv.cuts)
			}
		},
		"restart nograce": func(t *testing.T, srv *server, _ *wire.Sequence, st wire.Status) {
			if st != wire.ErrBadSession || srv.m.InGrace() || srv.cuts != 1 {
				t.Errorf("%v, cut %d times", st, srv.cuts)
			}
		},
	} {
		t.Run(line, func(t *testing.T) {
			s, srv := newServer(t)
			_, sequence := client(t, srv.m)
			if err := s.Do(line); err != nil {
				t.Fatal(err)
			}
			a, st := sequence()
			check(t, srv, a, st)
		})
	}
	s, srv := newServer(t)
	client(t, srv.m)
	if err := s.Do("restart grace"); err != nil {
		t.Fatal(err)
	}
	if err := s.Do("end-grace"); err != nil || srv.m.InGrace() {
		t.Error(err)
	}
}

func TestUnknownOrders(t *testing.T) {
	s, _ := newServer(t)
	for line, why := range map[string]string{
		"":                         "no command",
		"explode":                  "unknown command",
		"fail REMOVE":              "takes",
		"fail REMOVE X":            "no status",
		"fail WHAT NFS4ERR_IO":     "no operation",
		"fail REMOVE NFS4ERR_IO x": "not a number",
		"fail REMOVE NFS4ERR_IO 0": "not a number",
		"lose-call WHAT":           "no operation",
		"lose-reply REMOVE -1":     "not a number",
		"async-copy maybe":         "neither",
		"restart maybe":            "neither",
		"slots":                    "takes",
		"clear now":                "takes",
		"recall-any many":          "invalid syntax",
	} {
		if err := s.Do(line); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
