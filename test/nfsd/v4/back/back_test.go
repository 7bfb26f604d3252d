package back

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// rig is a server's state, its callbacks, and one client with a callback service of this
// project's.
type rig struct {
	*testing.T
	*Caller
	m       *state.Machine
	service *callback.Service
	client  *client
	peer    state.Peer
	id      wire.ClientID
	session wire.SessionID
	seq     uint32
	slots   int
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, Caller: New(Config{Timeout: 5 * time.Second, Pause: time.Millisecond}), slots: 1}
	r.m = state.New(state.Config{Delegations: true, Callback: r.Tell, Ended: r.Ended})
	r.Start(r.m)
	t.Cleanup(r.Close)
	r.service = callback.New(callback.Config{Slots: r.slots})
	r.client = &client{asked: make(chan wire.CBOp, 100), answers: map[wire.CBOp][]wire.Status{}}
	r.service.Attach(r.client)
	r.peer = state.Peer{Principal: "sys:0", Minor: 2, Conn: newLine(r.service)}
	r.arrive()
	return r
}

// arrive makes the client, and a session with a back channel.
func (r *rig) arrive() {
	r.Helper()
	ex := &wire.ExchangeID{Owner: []byte("o"), Verifier: nfsclient.Verifier{1}}
	r.want(r.m.ExchangeID(r.peer, nil, ex), wire.OK)
	ch := wire.Channel{MaxRequest: 1 << 20, MaxResponse: 1 << 20, MaxResponseCached: 1024, MaxOps: 16, MaxRequests: 8}
	cs := &wire.CreateSession{ClientID: ex.ClientID, SequenceID: ex.SequenceID, Flags: wire.SessionConnBackChan, Fore: ch,
		Back: r.service.Channel(), CBProgram: wire.CallbackProgram, SecParms: []wire.SecParms{{Flavor: wire.AuthSys, Machine: "here", UID: 5, GIDs: []uint32{6}}}}
	r.want(r.m.CreateSession(r.peer, nil, cs), wire.OK)
	r.id, r.session, r.seq = ex.ClientID, cs.Session, 0
	r.service.Created(callback.Session{ID: r.session, Minor: 2, Slots: int(cs.ResBack.MaxRequests)})
	r.do(func(c *state.Call) wire.Status { return r.m.ReclaimComplete(c, &wire.ReclaimComplete{}) })
}

func (r *rig) want(got, want wire.Status) {
	r.Helper()
	if got != want {
		r.Fatalf("status %v, want %v", got, want)
	}
}

func (r *rig) do(f func(c *state.Call) wire.Status) {
	r.Helper()
	r.seq++
	c, st := r.m.Sequence(r.peer, &wire.Sequence{Session: r.session, SequenceID: r.seq}, state.Compound{Ops: 2})
	r.want(st, wire.OK)
	defer c.End(nil)
	r.want(f(c), wire.OK)
}

// delegation opens a file and gets a delegation of it.
func (r *rig) delegation(f state.File) wire.Stateid {
	r.Helper()
	a := &wire.Open{Access: wire.ShareRead, Owner: wire.Owner{Owner: "x"}, Claim: wire.ClaimFH}
	r.do(func(c *state.Call) wire.Status { return r.m.Open(c, a, state.Opening{File: f, MayRead: true}) })
	if a.Delegation.Type != wire.DelegRead {
		r.Fatalf("%+v", a.Delegation)
	}
	r.client.mu.Lock()
	r.client.file, r.client.sid = f, a.Delegation.Stateid
	r.client.mu.Unlock()
	return a.Delegation.Stateid
}

func (r *rig) asked(want wire.CBOp) {
	r.Helper()
	select {
	case op := <-r.client.asked:
		if op != want {
			r.Fatalf("%v, want %v", op, want)
		}
	case <-time.After(10 * time.Second):
		r.Fatalf("no %v", want)
	}
}

// client notes what it is asked, and answers what it was told to, then OK.
type client struct {
	mu      sync.Mutex
	asked   chan wire.CBOp
	answers map[wire.CBOp][]wire.Status
	file    state.File
	sid     wire.Stateid
}

func (c *client) answer(op wire.CBOp) wire.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := wire.OK
	if a := c.answers[op]; len(a) > 0 {
		st, c.answers[op] = a[0], a[1:]
	}
	c.asked <- op
	return st
}

func (c *client) Recall(h nfsclient.Handle, sid wire.Stateid, _ bool) wire.Status {
	c.mu.Lock()
	known := h == c.file && sid == c.sid
	c.mu.Unlock()
	if !known {
		return wire.ErrBadStateid
	}
	return c.answer(wire.OpCBRecall)
}

func (c *client) GetAttr(nfsclient.Handle, wire.Bitmap) (wire.Attrs, wire.Status) {
	return wire.Attrs{Mask: wire.BitmapOf(wire.AttrSize), Size: 77}, c.answer(wire.OpCBGetAttr)
}
func (c *client) RecallAny(uint32, wire.Bitmap) wire.Status { return c.answer(wire.OpCBRecallAny) }
func (c *client) RecallSlot(uint32) wire.Status             { return c.answer(wire.OpCBRecallSlot) }
func (c *client) NotifyLock(nfsclient.Handle, wire.Owner) wire.Status {
	return c.answer(wire.OpCBNotifyLock)
}
func (c *client) Offload(*wire.CBOffload) wire.Status { return c.answer(wire.OpCBOffload) }

// line is a connection on which calls can go wrong.
type line struct {
	service transport.Handler
	done    chan struct{}

	mu sync.Mutex
	// before and after are how many calls are lost before they are carried out, or their
	// answers.
	before, after int
	cred          transport.Cred
	calls         int
}

func newLine(h transport.Handler) *line { return &line{service: h, done: make(chan struct{})} }

func (l *line) Done() <-chan struct{} { return l.done }

func (l *line) Call(ctx context.Context, c *transport.Call) error {
	l.mu.Lock()
	l.calls++
	l.cred = c.Cred
	before, after := l.before > 0, l.before == 0 && l.after > 0
	if before {
		l.before--
	} else if after {
		l.after--
	}
	l.mu.Unlock()
	lost := &transport.Error{Fate: transport.Unknown, Err: errors.New("connection lost")}
	if before {
		return lost
	}
	var args, reply xdr.Writer
	c.Args(&args)
	var r xdr.Reader
	r.Reset(args.Bytes(), nil)
	q := &transport.Request{Prog: c.Prog, Vers: c.Vers, Proc: c.Proc, Args: &r, Reply: &reply}
	if st := l.service.Serve(ctx, q); st != transport.Success {
		return &transport.Error{Fate: transport.Answered, Err: errors.New("not accepted")}
	}
	if after {
		return lost
	}
	r.Reset(reply.Bytes(), nil)
	if err := c.Result(&r); err != nil {
		return &transport.Error{Fate: transport.Answered, Err: err}
	}
	return nil
}

// line is the client's connection now.
func (r *rig) line() *line {
	l, _ := r.peer.Conn.(*line)
	return l
}

// TestRecalled: a client is recalled until it has answered, whatever it says first.
func TestRecalled(t *testing.T) {
	r := newRig(t)
	r.client.answers[wire.OpCBRecall] = []wire.Status{wire.ErrDelay, wire.ErrBadStateid, nfsclient.ErrBadHandle}
	sid := r.delegation("f")
	if n := r.m.Recall("f"); n != 1 {
		t.Fatal(n)
	}
	for range 4 {
		r.asked(wire.OpCBRecall)
	}
	l := r.line()
	l.mu.Lock()
	cred, _ := l.cred.(*transport.AuthSys)
	l.mu.Unlock()
	if cred == nil || cred.UID != 5 || cred.Machine != "here" || len(cred.GIDs) != 1 {
		t.Errorf("credential %+v", cred)
	}
	r.do(func(c *state.Call) wire.Status { return r.m.DelegReturn(c, "f", &wire.DelegReturn{Stateid: sid}) })
}

// A recall ends when the delegation was returned meanwhile.
func TestRecallOfReturned(t *testing.T) {
	r := newRig(t)
	sid := r.delegation("f")
	r.client.mu.Lock()
	r.client.file = "unknown to the client"
	r.client.mu.Unlock()
	r.m.Recall("f")
	r.do(func(c *state.Call) wire.Status { return r.m.DelegReturn(c, "f", &wire.DelegReturn{Stateid: sid}) })
	r.idle()
}

// idle waits until no callback is under way.
func (r *rig) idle() {
	r.Helper()
	ended := make(chan struct{})
	go func() { r.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		r.Fatal("still calling")
	}
}

// TestLost: a callback whose answer, or which itself, was lost, is made once more when the client
// has bound a connection, and the slot goes on where it stands.
func TestLost(t *testing.T) {
	for name, lose := range map[string]func(*line){
		"before it was carried out": func(l *line) { l.before = 1 },
		"the answer":                func(l *line) { l.after = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.delegation("f")
			lose(r.line())
			r.m.Recall("f")
			r.idle()
			if b := r.bits(); b&wire.SeqCBPathDown == 0 {
				t.Errorf("bits %x", b)
			}
			if _, err := r.Do(t.Context(), r.id, &wire.CBRecallAny{}); !errors.Is(err, ErrNoBackChannel) {
				t.Errorf("%v", err)
			}
			if name == "the answer" {
				r.asked(wire.OpCBRecall)
			}
			r.peer.Conn = newLine(r.service)
			r.want(r.m.BindConn(r.peer, &wire.BindConnToSession{Session: r.session, Dir: wire.BindForeOrBoth}), wire.OK)
			r.asked(wire.OpCBRecall)
			if b := r.bits(); b != 0 {
				t.Errorf("bits %x", b)
			}
			st, err := r.Do(t.Context(), r.id, &wire.CBRecallAny{})
			if err != nil || st != wire.OK {
				t.Fatal(st, err)
			}
			r.asked(wire.OpCBRecallAny)
		})
	}
}

func (r *rig) bits() uint32 {
	r.Helper()
	r.seq++
	a := &wire.Sequence{Session: r.session, SequenceID: r.seq}
	c, st := r.m.Sequence(r.peer, a, state.Compound{Ops: 1})
	r.want(st, wire.OK)
	c.End(nil)
	return a.StatusFlags
}

// The other callbacks reach the client, and their results the server.
func TestOthers(t *testing.T) {
	r := newRig(t)
	get := &wire.CBGetAttr{Handle: "f", Want: wire.BitmapOf(wire.AttrSize)}
	if st, err := r.Do(t.Context(), r.id, get); err != nil || st != wire.OK || get.Attrs.Size != 77 {
		t.Errorf("%v %v %+v", st, err, get.Attrs)
	}
	r.asked(wire.OpCBGetAttr)
	if st, err := r.Do(t.Context(), r.id, &wire.CBOffload{Handle: "f", Copied: 9}); err != nil || st != wire.OK {
		t.Errorf("%v %v", st, err)
	}
	r.asked(wire.OpCBOffload)
	r.m.SetSlots(2)
	r.asked(wire.OpCBRecallSlot)
}

// A client that does not know the session any more has a fault, and is told.
func TestFault(t *testing.T) {
	r := newRig(t)
	r.service.Created(callback.Session{ID: wire.SessionID{9}, Minor: 2, Slots: 1})
	_, err := r.Do(t.Context(), r.id, &wire.CBRecallAny{})
	var f *fault
	if !errors.As(err, &f) || f.status != wire.ErrBadSession {
		t.Fatal(err)
	}
	if b := r.bits(); b&wire.SeqBackchannelFault == 0 {
		t.Errorf("bits %x", b)
	}
}

// Callbacks at once take turns, and each is carried out once.
func TestTurns(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if st, err := r.Do(t.Context(), r.id, &wire.CBRecallAny{}); err != nil || st != wire.OK {
				t.Error(st, err)
			}
		})
	}
	wg.Wait()
	if n := len(r.client.asked); n != 20 {
		t.Errorf("carried out %d times", n)
	}
}

// What does not fit the client's receives is not sent.
func TestTooLong(t *testing.T) {
	r := newRig(t)
	op := &wire.CBOffload{Handle: "f"}
	ch, _ := r.m.BackChannel(r.id, wire.SessionID{})
	ch.Channel.MaxRequest = 500
	if _, err := r.over(t.Context(), &ch, op, nil); !errors.Is(err, errTooLong) {
		t.Error(err)
	}
}

// The table of a session goes with it.
func TestEnded(t *testing.T) {
	r := newRig(t)
	if _, err := r.Do(t.Context(), r.id, &wire.CBRecallAny{}); err != nil {
		t.Fatal(err)
	}
	r.m.Expire(r.id)
	if n := len(r.sessions); n != 0 {
		t.Errorf("%d tables", n)
	}
}
