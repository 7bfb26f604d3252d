package nfs4

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// scripted is a server of NFSv4.1 in memory, and the transport to it. Any handle is a file. It gives a read
// delegation for each OPEN that asks, while give is set, and calls back when the test has it do so.
type scripted struct {
	back *callback.Service
	// answered, if set, runs after a compound was carried out and before its reply is delivered.
	answered func(c *wire.Compound)

	mu      sync.Mutex
	give    bool
	reclaim bool // a delegation is given to CLAIM_PREVIOUS
	boot    uint64
	serial  uint64
	session wire.SessionID
	flags   uint32
	size    uint64 // of every file
	change  uint64
	stateid map[[12]byte]state
	revoked map[[12]byte]bool
	busy    bool // locks are denied
	// lockless: no lock can be reclaimed. freed counts FREE_STATEIDs.
	lockless bool
	freed    int
	log      []string
	backSeq  uint32
}

// state is what a stateid stands for.
type state struct {
	h     nfsclient.Handle
	kind  string // open, delegation or lock
	owner string
}

var _ transport.Caller = (*scripted)(nil)

func (*scripted) Register(*mem.Arena) error   { return nil }
func (*scripted) Unregister(*mem.Arena) error { return nil }
func (*scripted) Limits() transport.Limits {
	return transport.Limits{MaxSend: 1 << 20, MaxRecv: 1 << 20, Concurrent: 64}
}
func (*scripted) Stats() transport.Stats { return transport.Stats{} }
func (*scripted) Close() error           { return nil }

// Call implements transport.Caller.
func (v *scripted) Call(ctx context.Context, q *transport.Call) error {
	if err := ctx.Err(); err != nil {
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	var w xdr.Writer
	w.Reset(nil, q.Send)
	q.Args(&w)
	c := new(wire.Compound)
	var r xdr.Reader
	r.Reset(bytes.Clone(w.Bytes()), nil)
	c.ParseArgs(&r)
	if err := r.End(); err != nil {
		return err
	}
	v.serve(c)
	if v.answered != nil {
		v.answered(c)
	}
	var reply xdr.Writer
	c.AppendRes(&reply)
	var res xdr.Reader
	res.Reset(reply.Bytes(), q.Recv)
	if err := q.Result(&res); err != nil {
		return &transport.Error{Fate: transport.Answered, Err: err}
	}
	return nil
}

func (v *scripted) serve(c *wire.Compound) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var h nfsclient.Handle
	for i, o := range c.Ops {
		if o.Op() != wire.OpSequence {
			v.log = append(v.log, name(o))
		}
		c.Done = i + 1
		if c.Status = v.carryOut(o, &h); c.Status != wire.OK {
			return
		}
	}
}

// name is the operation's, and of OPEN the claim.
func name(o wire.Operation) string {
	if p, ok := o.(*wire.Open); ok {
		return fmt.Sprintf("OPEN %d", p.Claim)
	}
	return o.Op().String()
}

// newState makes a stateid; mu is held.
func (v *scripted) newState(s state) wire.Stateid {
	v.serial++
	sid := wire.Stateid{Seqid: 1, Other: [12]byte{byte(v.boot), byte(v.serial >> 8), byte(v.serial)}}
	v.stateid[sid.Other] = s
	return sid
}

// known is the status of a stateid; mu is held.
func (v *scripted) known(sid wire.Stateid) wire.Status {
	switch _, ok := v.stateid[sid.Other]; {
	case v.revoked[sid.Other]:
		return wire.ErrDelegRevoked
	case !ok:
		return wire.ErrBadStateid
	}
	return wire.OK
}

// carryOut carries out one operation; mu is held.
func (v *scripted) carryOut(op wire.Operation, h *nfsclient.Handle) wire.Status {
	switch o := op.(type) {
	case *wire.ExchangeID:
		v.serial++
		o.ClientID, o.SequenceID, o.ServerMajor = wire.ClientID(v.boot<<32|v.serial), 1, "scripted"
	case *wire.CreateSession:
		if uint64(o.ClientID)>>32 != v.boot {
			return wire.ErrStaleClientID
		}
		v.serial++
		v.session = wire.SessionID{byte(v.boot), byte(v.serial)}
		v.backSeq = 0
		o.Session, o.ResSequenceID, o.ResFlags, o.ResFore, o.ResBack = v.session, o.SequenceID, o.Flags, o.Fore, o.Back
	case *wire.Sequence:
		if o.Session != v.session || o.Session[0] != byte(v.boot) {
			return wire.ErrBadSession
		}
		o.ResSession, o.ResSequenceID, o.ResSlot, o.ResHighestSlot, o.TargetHighestSlot = o.Session, o.SequenceID, o.Slot, 63, 63
		o.StatusFlags = v.flags
	case *wire.DestroySession, *wire.DestroyClientID, *wire.ReclaimComplete, *wire.PutRootFH, *wire.Remove:
	case *wire.PutFH:
		*h = o.Handle
	case *wire.Lookup:
		*h = nfsclient.Handle(o.Name)
	case *wire.GetFH:
		if o.Handle = *h; *h == "" {
			o.Handle = "root"
		}
	case *wire.GetAttr:
		o.Attrs = wire.Attrs{Mask: o.Want.And(statAttrs.Or(wire.BitmapOf(wire.AttrSupportedAttrs))), SupportedAttrs: statAttrs, Type: nfsclient.Regular,
			Size: v.size, Change: v.change, NumLinks: 1, Owner: "0", OwnerGroup: "0"}
		if *h == "" || *h == "export" {
			o.Attrs.Type = nfsclient.Directory
		}
	case *wire.Access:
		o.Supported, o.Granted = o.Want, o.Want
	case *wire.SetAttr:
		v.change++
	case *wire.Open:
		if o.Claim == wire.ClaimDelegCurFH {
			if st := v.known(o.DelegStateid); st != wire.OK {
				return st
			}
		}
		o.Stateid = v.newState(state{*h, "open", o.Owner.Owner})
		asked := o.Claim == wire.ClaimFH && o.Access&wire.WantNoDeleg == 0 && v.give ||
			o.Claim == wire.ClaimPrevious && o.DelegType == wire.DelegRead && v.reclaim
		if asked {
			o.Delegation = wire.Delegation{Type: wire.DelegRead, Stateid: v.newState(state{*h, "delegation", ""}), ACE: wire.ACE{Who: "OWNER@"}}
		}
	case *wire.Close:
		st := v.known(o.Stateid)
		delete(v.stateid, o.Stateid.Other)
		return st
	case *wire.DelegReturn:
		st := v.known(o.Stateid)
		delete(v.stateid, o.Stateid.Other)
		return st
	case *wire.Lock:
		if v.busy {
			o.Denied.Type = wire.WriteLock
			return wire.ErrDenied
		}
		if o.Reclaim && v.lockless {
			return wire.ErrNoGrace
		}
		if o.New && v.stateid[o.OpenStateid.Other].kind != "open" {
			return wire.ErrBadStateid
		}
		o.Stateid = v.newState(state{*h, "lock", ""})
	case *wire.LockU:
		o.ResStateid = o.Stateid
		delete(v.stateid, o.Stateid.Other)
	case *wire.SaveFH:
	case *wire.Copy:
		if o.ResConsecutive, o.ResSynchronous = true, false; o.Synchronous {
			return wire.ErrOffloadNoReqs
		}
		o.HasCallback, o.Callback = true, v.newState(state{*h, "copy", ""})
	case *wire.OffloadStatus:
		return v.known(o.Stateid)
	case *wire.TestStateID:
		o.Statuses = nil
		for _, sid := range o.Stateids {
			o.Statuses = append(o.Statuses, v.known(sid))
		}
	case *wire.FreeStateID:
		v.freed++
		delete(v.revoked, o.Stateid.Other)
		delete(v.stateid, o.Stateid.Other)
		if len(v.revoked) == 0 {
			v.flags &^= wire.SeqRecallableStateRevoked
		}
	default:
		return nfsclient.ErrNotSupp
	}
	return wire.OK
}

// forget has the server not know a stateid any more.
func (v *scripted) forget(sid wire.Stateid) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.stateid, sid.Other)
}

// stateidOf is that of a kind of state of a file; zero if there is none.
func (v *scripted) stateidOf(h nfsclient.Handle, kind string) (sid wire.Stateid) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for other, s := range v.stateid {
		if s.h == h && s.kind == kind {
			return wire.Stateid{Seqid: 1, Other: other}
		}
	}
	return sid
}

// count is how many there are of a kind of state.
func (v *scripted) count(kind string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.stateid {
		if s.kind == kind {
			n++
		}
	}
	return n
}

// calls are the operations since the last time, without those that go along with others.
func (v *scripted) calls() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := slices.DeleteFunc(v.log, func(s string) bool { return s == "PUTFH" || s == "GETATTR" || s == "ACCESS" })
	v.log = nil
	return strings.Join(all, " ")
}

// callback makes a call on the client.
func (v *scripted) callback(t *testing.T, ops ...wire.CBOperation) wire.Status {
	t.Helper()
	v.mu.Lock()
	v.backSeq++
	c := &wire.CBCompound{Minor: 2, Ops: append([]wire.CBOperation{&wire.CBSequence{Session: v.session, SequenceID: v.backSeq}}, ops...)}
	v.mu.Unlock()
	var args, reply xdr.Writer
	c.AppendArgs(&args)
	var r xdr.Reader
	r.Reset(args.Bytes(), nil)
	if st := v.back.Serve(t.Context(), &transport.Request{Prog: wire.CallbackProgram, Vers: 1, Proc: wire.ProcCBCompound, Args: &r, Reply: &reply}); st != transport.Success {
		t.Fatalf("callback: accept_stat %d", st)
	}
	r.Reset(reply.Bytes(), nil)
	c.ParseRes(&r)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	return c.Status
}

// told is a Watcher that notes what it is told.
type told struct {
	recalled, lost chan nfsclient.Handle
}

func (w *told) Recalled(_ context.Context, h nfsclient.Handle) error {
	w.recalled <- h
	return nil
}

func (w *told) Lost(h nfsclient.Handle, _ *nfsclient.LockOwner, _ error) { w.lost <- h }

// rig4 is a Client of a scripted server.
type rig4 struct {
	*testing.T
	v    *scripted
	c    *Client
	told *told
}

var someone = nfsclient.Cred{UID: 1, GID: 1}

func newRig4(t *testing.T) *rig4 {
	t.Helper()
	v := &scripted{back: callback.New(callback.Config{}), give: true, reclaim: true, boot: 1, size: 5, change: 1,
		stateid: map[[12]byte]state{}, revoked: map[[12]byte]bool{}}
	c, err := Mount(t.Context(), Config{Host: "server", Export: "/export", Minor: 2, Caller: v, Owner: []byte("owner"), Callbacks: v.back, Log: testlog.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig4{t, v, c, &told{make(chan nfsclient.Handle, 64), make(chan nfsclient.Handle, 64)}}
	c.Watch(r.told)
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, kind := range []string{"open", "delegation"} {
			if n := v.count(kind); n > 0 {
				t.Errorf("state of %d of kind %s is left at the server", n, kind)
			}
		}
		if n := len(c.state.delegs.files); n > 0 {
			t.Errorf("%d files are still noted", n)
		}
	})
	v.calls()
	return r
}

func (r *rig4) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig4) open(h nfsclient.Handle, mode nfsclient.OpenMode) nfsclient.OpenState {
	r.Helper()
	o, err := r.c.OpenFile(r.Context(), someone, h, mode)
	r.must(err)
	return o.State
}

func (r *rig4) close(h nfsclient.Handle, st nfsclient.OpenState) {
	r.Helper()
	r.must(r.c.CloseFile(r.Context(), someone, h, st))
}

// made checks which operations the client has sent since the last time.
func (r *rig4) made(want string) {
	r.Helper()
	if got := r.v.calls(); got != want {
		r.Errorf("sent %q instead of %q", got, want)
	}
}

// await waits until something has come about that the client does in the background.
func (r *rig4) await(what string, f func() bool) {
	r.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(end) {
			r.Fatalf("waiting for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// held opens and closes a file, so that its delegation is held.
func (r *rig4) held(h nfsclient.Handle) {
	r.Helper()
	r.close(h, r.open(h, nfsclient.OpenRead))
	if r.v.stateidOf(h, "delegation") == (wire.Stateid{}) {
		r.Fatal("no delegation")
	}
	r.v.calls()
}
