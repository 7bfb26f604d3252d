package nfs4

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// fake is a server in memory, and the transport to it, that a test scripts an operation at a time. By itself
// it has one directory, which is each handle's.
type fake struct {
	// op is asked first for each operation behind SEQUENCE, with fake.mu held; false leaves the operation to
	// what the fake does by itself.
	op func(o wire.Operation) (wire.Status, bool)
	// attrs has the values of what GETATTR asks for.
	attrs wire.Attrs

	mu     sync.Mutex
	id     wire.ClientID
	counts map[wire.Op]int
	// ticketless is a user who has no credential, if it is not 0.
	ticketless uint32
}

var _ transport.Caller = (*fake)(nil)

func newFake() *fake {
	f := &fake{counts: map[wire.Op]int{}}
	f.attrs = wire.Attrs{Type: nfsclient.Directory, Change: 1, Size: 4096, FSID: wire.FSID{Major: 1}, FileID: 2, MountedOnFileID: 2, Mode: 0o755,
		NumLinks: 2, Owner: "0", OwnerGroup: "0", LeaseTime: 90, MaxRead: 1 << 20, MaxWrite: 1 << 20, MaxName: 255}
	f.attrs.Mask = statAttrs.Or(wire.BitmapOf(wire.AttrSupportedAttrs, wire.AttrLeaseTime, wire.AttrMaxRead, wire.AttrMaxWrite, wire.AttrMaxName,
		wire.AttrMountedOnFileID))
	f.attrs.SupportedAttrs = f.attrs.Mask
	return f
}

func (*fake) Register(*mem.Arena) error   { return nil }
func (*fake) Unregister(*mem.Arena) error { return nil }
func (*fake) Limits() transport.Limits {
	return transport.Limits{MaxSend: 1 << 20, MaxRecv: 1 << 20, Concurrent: 64}
}
func (*fake) Stats() transport.Stats { return transport.Stats{} }
func (*fake) Close() error           { return nil }

// Call implements transport.Caller.
func (f *fake) Call(ctx context.Context, c *transport.Call) error {
	if err := ctx.Err(); err != nil {
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	f.mu.Lock()
	none := f.ticketless
	f.mu.Unlock()
	if who, ok := c.Cred.(*transport.AuthSys); ok && who.UID != 0 && who.UID == none {
		return &transport.Error{Fate: transport.NotSent, Err: fmt.Errorf("%w for user %d", transport.ErrAwaitCredential, who.UID)}
	}
	var w xdr.Writer
	w.Reset(nil, c.Send)
	c.Args(&w)
	comp := new(wire.Compound)
	var r xdr.Reader
	r.Reset(w.AppendFlat(nil, 0), nil)
	comp.ParseArgs(&r)
	if err := r.End(); err != nil {
		return fmt.Errorf("the fake cannot decode the request: %w", err)
	}
	f.mu.Lock()
	comp.Status = wire.OK
	for i, o := range comp.Ops {
		f.counts[o.Op()]++
		st, done := wire.OK, false
		if f.op != nil && i > 0 {
			st, done = f.op(o)
		}
		if !done {
			st = f.serve(o)
		}
		if comp.Done = i + 1; st != wire.OK {
			comp.Status = st
			break
		}
	}
	f.mu.Unlock()
	var res xdr.Writer
	comp.AppendRes(&res)
	if n := len(res.Bytes()); n > c.ReplyMax {
		return fmt.Errorf("a reply of %d bytes where %d were announced", n, c.ReplyMax)
	}
	var rr xdr.Reader
	rr.Reset(res.Bytes(), c.Recv)
	return c.Result(&rr)
}

func (f *fake) serve(o wire.Operation) wire.Status {
	switch o := o.(type) {
	case *wire.ExchangeID:
		f.id++
		o.ClientID, o.SequenceID, o.ServerMajor, o.ServerScope, o.ResFlags = f.id, 1, "fake", "fake", wire.ExchangeUseNonPNFS
	case *wire.CreateSession:
		if o.ClientID != f.id {
			return wire.ErrStaleClientID
		}
		o.Session, o.ResSequenceID, o.ResFore, o.ResBack = wire.SessionID{1, byte(f.id)}, o.SequenceID, o.Fore, o.Back
	case *wire.Sequence:
		if o.Session[1] != byte(f.id) {
			return wire.ErrBadSession
		}
		o.ResSession, o.ResSequenceID, o.ResSlot = o.Session, o.SequenceID, o.Slot
		o.ResHighestSlot, o.TargetHighestSlot = 63, 63
	case *wire.GetFH:
		o.Handle = "handle"
	case *wire.GetAttr:
		o.Attrs = f.attrs
		o.Attrs.Mask = o.Want.And(f.attrs.Mask)
	case *wire.Open:
		o.Stateid.Seqid, o.Stateid.Other = 1, [12]byte{1}
	}
	return wire.OK
}

// without takes a user's credential away; 0 gives it back.
func (f *fake) without(uid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticketless = uid
}

// restart forgets client and session.
func (f *fake) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id += 100
}

// count is how often an operation was asked for.
func (f *fake) count(op wire.Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

// script sets what the fake answers from now on.
func (f *fake) script(op func(o wire.Operation) (wire.Status, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op = op
}

// mountFake mounts from f. Pauses are over at once; slept is their sum.
func mountFake(t *testing.T, f *fake, minor uint32) (c *Client, slept func() time.Duration) {
	t.Helper()
	c, err := Mount(t.Context(), Config{Host: "fake", Export: "/", Minor: minor, Caller: f, Owner: []byte("owner"), Verifier: [8]byte{1},
		Log: testlog.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var sum time.Duration
	c.sleep = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		sum += d
		return ctx.Err()
	}
	t.Cleanup(func() {
		f.script(nil)
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c, func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return sum
	}
}
