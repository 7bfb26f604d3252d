package rpcrdma

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// strictConn records local invalidations of keys that are not bound, which adapters
// may not stand.
type strictConn struct {
	*scriptConn
	unbound atomic.Int32
}

func (c *strictConn) PostSend(wrs []verbs.SendWR) (int, error) {
	c.mu.Lock()
	for _, wr := range wrs {
		if wr.Op == verbs.OpLocalInvalidate && !c.bound[wr.RKey] {
			c.unbound.Add(1)
		}
	}
	c.mu.Unlock()
	return c.scriptConn.PostSend(wrs)
}

// TestForeignKeyIsInvalid has the answer to one call invalidate the key of another:
// that one is not made invalid again.
func TestForeignKeyIsInvalid(t *testing.T) {
	conn := &strictConn{scriptConn: &scriptConn{}}
	d, l, a := dialScript(t, DialerConfig{Device: overScript{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 4, StallLimit: time.Minute}, 1<<16)
	answer := func(q Header, invalidate uint32) {
		h := Header{XID: q.XID, Version: Version1, Credits: 4, Proc: wire.ProcMsg}
		conn.deliver(append(encodeHeader(&h), rpcAccepted(q.XID, 0)...), invalidate)
	}
	calls := func() []Header {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return slices.Clone(conn.sent)
	}
	over := make(chan error, 3)
	start := func(xid uint32) {
		runExchange := func() {
			got := 0
			over <- l.Exchange(context.Background(), xid, readCall(mem.Vec{a.Seg(int(xid)*8192, 8192)}, &got))
		}
		go runExchange()
		eventually(t, "call sent", func() bool { return len(calls()) == int(xid)+1 })
	}
	start(0)
	answer(calls()[0], 0) // which opens the window for two at a time
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	start(1)
	start(2)
	q := calls()
	answer(q[1], q[2].Lists.Write[0][0].Handle)
	if err := <-over; err != nil {
		t.Error(err)
	}
	answer(q[2], 0)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if n := conn.unbound.Load(); n != 0 {
		t.Errorf("%d keys were made invalid twice", n)
	}
	if s := d.Stats(); s.RemoteInvalidations != 1 || s.LocalInvalidations != 2 {
		t.Errorf("statistics %+v", s)
	}
	if err := errors.Join(l.Close(), d.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

// TestKeysInvalidBeforeResults: when results are looked at, the peer can change nothing
// in them any more.
func TestKeysInvalidBeforeResults(t *testing.T) {
	conn := &scriptConn{}
	d, l, a := dialScript(t, DialerConfig{Device: &scriptDevice{conn: conn}, Credits: 4, StallLimit: time.Minute}, 1<<16)
	got := 0
	list := pingCall(nil)
	list.ReplyMax = 8000
	for xid, c := range []*transport.Call{readCall(mem.Vec{a.Seg(0, 8192)}, &got), writeCall(mem.Vec{a.Seg(0, 8192)}), list} {
		result, bound := c.Result, -1
		c.Result = func(r *xdr.Reader) error {
			conn.mu.Lock()
			bound = len(conn.bound)
			conn.mu.Unlock()
			return result(r)
		}
		over := make(chan error, 1)
		runExchange := func() { over <- l.Exchange(context.Background(), uint32(xid), c) }
		go runExchange()
		var q Header
		eventually(t, "call sent", func() bool {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			if len(conn.sent) == xid+1 {
				q = conn.sent[xid]
			}
			return len(conn.sent) == xid+1 && len(conn.bound) > 0
		})
		h := Header{XID: q.XID, Version: Version1, Credits: 4, Proc: wire.ProcMsg}
		conn.deliver(append(encodeHeader(&h), rpcAccepted(q.XID, 0)...), 0)
		if err := <-over; err != nil || bound != 0 {
			t.Errorf("call %d: %d keys are valid when its results are looked at, %v", xid, bound, err)
		}
	}
	if err := errors.Join(l.Close(), d.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}
