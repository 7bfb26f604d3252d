package state

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// rig is a Machine whose time stands still until it is told otherwise.
type rig struct {
	*testing.T
	*Machine
	now      time.Time
	calls    []Callback
	released []File
}

const lease = 90 * time.Second

func newRig(t *testing.T, cfg Config) *rig {
	r := &rig{T: t, now: time.Unix(1e9, 0)}
	cfg.Now = func() time.Time { return r.now }
	cfg.Callback = func(c Callback) { r.calls = append(r.calls, c) }
	cfg.Released = func(f File) { r.released = append(r.released, f) }
	r.Machine = New(cfg)
	return r
}

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

// owedCalls takes the callbacks that have come up.
func (r *rig) owedCalls() []Callback {
	c := r.calls
	r.calls = nil
	return c
}

func (r *rig) want(what string, got, want wire.Status) {
	r.Helper()
	if got != want {
		r.Fatalf("%s: %s, want %s", what, name(got), name(want))
	}
}

func name(st wire.Status) string {
	if st == wire.OK {
		return "OK"
	}
	return wire.StatusName(st)
}

// conn is a connection that callbacks can be sent over.
type conn struct{ done chan struct{} }

func newConn() *conn { return &conn{make(chan struct{})} }

func (c *conn) Call(context.Context, *transport.Call) error { return transport.ErrClosed }
func (c *conn) Done() <-chan struct{}                       { return c.done }

// user is a client of the rig with one session. Its calls go on slot 0.
type user struct {
	*rig
	peer    Peer
	owner   string
	id      wire.ClientID
	session wire.SessionID
	seq     uint32
	slots   uint32
}

// user makes a client that has a back channel and has nothing to reclaim.
func (r *rig) user(owner string) *user {
	r.Helper()
	u := r.arrive(owner, 1)
	r.want("RECLAIM_COMPLETE", u.reclaimComplete(), wire.OK)
	return u
}

// arrive makes a client that has not said RECLAIM_COMPLETE.
func (r *rig) arrive(owner string, verifier byte) *user {
	r.Helper()
	u := &user{rig: r, owner: owner, peer: Peer{Principal: "sys:0", Conn: newConn(), Minor: 2}}
	ex := u.exchange(verifier, 0)
	r.want("EXCHANGE_ID", u.ExchangeID(u.peer, nil, ex), wire.OK)
	cs := u.creation(ex.ClientID, ex.SequenceID)
	r.want("CREATE_SESSION", u.CreateSession(u.peer, nil, cs), wire.OK)
	u.id, u.session, u.slots = ex.ClientID, cs.Session, cs.ResFore.MaxRequests
	return u
}

func (u *user) exchange(verifier byte, flags uint32) *wire.ExchangeID {
	return &wire.ExchangeID{Owner: []byte(u.owner), Verifier: nfsclient.Verifier{verifier}, Flags: flags}
}

func (u *user) creation(id wire.ClientID, seq uint32) *wire.CreateSession {
	ch := wire.Channel{MaxRequest: 1 << 20, MaxResponse: 1 << 20, MaxResponseCached: 1024, MaxOps: 16, MaxRequests: 8}
	return &wire.CreateSession{ClientID: id, SequenceID: seq, Flags: wire.SessionConnBackChan, Fore: ch, Back: ch,
		CBProgram: 0x40000000, SecParms: []wire.SecParms{{Flavor: wire.AuthSys, UID: 7}}}
}

// begin makes a COMPOUND that goes on until the returned Call is ended.
func (u *user) begin() *Call {
	u.Helper()
	u.seq++
	c, st := u.Sequence(u.peer, u.sequence(0, u.seq), Compound{Ops: 2})
	u.want("SEQUENCE", st, wire.OK)
	return c
}

func (u *user) sequence(slot, seq uint32) *wire.Sequence {
	return &wire.Sequence{Session: u.session, Slot: slot, SequenceID: seq, HighestSlot: slot, CacheThis: true}
}

// do makes a COMPOUND of one operation.
func (u *user) do(f func(c *Call) wire.Status) wire.Status {
	u.Helper()
	c := u.begin()
	defer c.End([]byte("result"))
	return f(c)
}

// bits are the status bits of a SEQUENCE.
func (u *user) bits() uint32 {
	u.Helper()
	u.seq++
	a := u.sequence(0, u.seq)
	c, st := u.Sequence(u.peer, a, Compound{Ops: 1})
	u.want("SEQUENCE", st, wire.OK)
	c.End([]byte("result"))
	return a.StatusFlags
}

func (u *user) reclaimComplete() wire.Status {
	u.Helper()
	return u.do(func(c *Call) wire.Status { return u.ReclaimComplete(c, &wire.ReclaimComplete{}) })
}

const (
	r_  = wire.ShareRead
	w_  = wire.ShareWrite
	rw_ = wire.ShareBoth
)

// openAs is OPEN of a file by an owner.
func (u *user) openAs(owner string, f File, access, deny uint32) (wire.Stateid, wire.Status) {
	u.Helper()
	a := u.opening(owner, access, deny)
	st := u.open(a, f)
	return a.Stateid, st
}

func (u *user) opening(owner string, access, deny uint32) *wire.Open {
	return &wire.Open{Access: access | wire.WantNoDeleg, Deny: deny, Owner: wire.Owner{Owner: owner}, Claim: wire.ClaimFH}
}

func (u *user) open(a *wire.Open, f File) wire.Status {
	u.Helper()
	return u.do(func(c *Call) wire.Status { return u.Open(c, a, Opening{File: f, MayRead: true, MayWrite: true}) })
}

func (u *user) mustOpen(owner string, f File, access, deny uint32) wire.Stateid {
	u.Helper()
	s, st := u.openAs(owner, f, access, deny)
	u.want("OPEN", st, wire.OK)
	return s
}

func (u *user) close(f File, s wire.Stateid) wire.Status {
	u.Helper()
	return u.do(func(c *Call) wire.Status { return u.Close(c, f, &wire.Close{Stateid: s}) })
}

func (u *user) io(f File, s wire.Stateid, want Access) wire.Status {
	u.Helper()
	return u.do(func(c *Call) wire.Status { return u.CheckIO(c, f, s, want) })
}

// lock is LOCK by a new lock owner.
func (u *user) lock(owner string, f File, open wire.Stateid, t wire.LockType, offset, length uint64) (*wire.Lock, wire.Status) {
	u.Helper()
	a := &wire.Lock{Type: t, New: true, OpenStateid: open, Owner: wire.Owner{Owner: owner}, Offset: offset, Length: length}
	return a, u.do(func(c *Call) wire.Status { return u.Lock(c, f, a) })
}

func (u *user) unlock(f File, s wire.Stateid, offset, length uint64) (wire.Stateid, wire.Status) {
	u.Helper()
	a := &wire.LockU{Type: wire.WriteLock, Stateid: s, Offset: offset, Length: length}
	st := u.do(func(c *Call) wire.Status { return u.LockU(c, f, a) })
	return a.ResStateid, st
}

func (u *user) test(s wire.Stateid) wire.Status {
	u.Helper()
	a := &wire.TestStateID{Stateids: []wire.Stateid{s}}
	u.want("TEST_STATEID", u.do(func(c *Call) wire.Status { return u.TestStateid(c, a) }), wire.OK)
	return a.Statuses[0]
}

func (u *user) free(s wire.Stateid) wire.Status {
	u.Helper()
	return u.do(func(c *Call) wire.Status { return u.FreeStateid(c, &wire.FreeStateID{Stateid: s}) })
}
