package rpcrdma

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// holdSide keeps Sends from completing while hold is set.
type holdSide struct {
	serverSide
	h *heldSends
}

type heldSends struct {
	hold atomic.Bool
	wcs  chan verbs.Completion
}

func (c holdSide) PostAndReap(wrs []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	if last := &wrs[len(wrs)-1]; c.h.hold.Load() && last.Signaled {
		last.Signaled = false
		c.h.wcs <- verbs.Completion{ID: last.ID, Op: last.Op}
	}
	return c.serverSide.PostAndReap(wrs, wc)
}

// TestBackwardReplyTwice has a second reply come to a backward call that has its
// first one and waits for its Send: it changes nothing.
func TestBackwardReplyTwice(t *testing.T) {
	dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
	conn, h := &scriptConn{}, &heldSends{wcs: make(chan verbs.Completion, 1)}
	seen := make(chan transport.Backchannel, 1)
	srv, err := NewServer(dev, backSwitch{seen}, ServerConfig{InlineIn: 1024, InlineOut: 1024, Backward: 2})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	runServe := func() { served <- srv.Serve(context.Background(), dev) }
	go runServe()
	dev.reqs <- scriptRequest{conn, func(c serverSide) verbs.Conn { return holdSide{c, h} }}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	deliver := func(h Header, body []byte) { conn.deliver(append(encodeHeader(&h), body...), 0) }
	deliver(msgHeader(1, wire.Lists{}), rpcCall(1, procNull))
	back := (<-seen).(*backchannel)
	eventually(t, "reply sent", func() bool { return len(back.c.free) == cap(back.c.free) })
	h.hold.Store(true)
	word, done := uint32(0), make(chan error, 1)
	runCall := func() { done <- back.Call(within(t, patience), pingCall(&word)) }
	go runCall()
	held := <-h.wcs
	var q Header
	eventually(t, "call sent", func() bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		if len(conn.sent) == 1 {
			q = conn.sent[0]
		}
		return len(conn.sent) == 1
	})
	reply := Header{XID: q.XID, Version: Version1, Credits: 1, Proc: wire.ProcMsg}
	deliver(reply, rpcAccepted(q.XID, 5))
	eventually(t, "first reply taken", func() bool {
		back.mu.Lock()
		defer back.mu.Unlock()
		return back.slots[q.XID].state == slotReplied
	})
	deliver(reply, rpcAccepted(q.XID, 6))
	eventually(t, "second reply ignored", func() bool { return srv.Stats().Ignored == 1 })
	conn.mu.Lock()
	conn.done = append(conn.done, held)
	conn.ready.Broadcast()
	conn.mu.Unlock()
	if err := <-done; err != nil || word != 5 {
		t.Errorf("%d, %v", word, err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

// TestBackwardGivenUpBeforeSent gives up a backward call whose Send has not completed: its caller does not wait, and its
// slot and credit are free when both the Send has completed and the reply has come, whichever is first.
func TestBackwardGivenUpBeforeSent(t *testing.T) {
	dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
	conn, h := &scriptConn{}, &heldSends{wcs: make(chan verbs.Completion, 1)}
	seen := make(chan transport.Backchannel, 1)
	srv, err := NewServer(dev, backSwitch{seen}, ServerConfig{InlineIn: 1024, InlineOut: 1024, Backward: 2})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	runServe := func() { served <- srv.Serve(context.Background(), dev) }
	go runServe()
	dev.reqs <- scriptRequest{conn, func(c serverSide) verbs.Conn { return holdSide{c, h} }}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	deliver := func(h Header, body []byte) { conn.deliver(append(encodeHeader(&h), body...), 0) }
	deliver(msgHeader(1, wire.Lists{}), rpcCall(1, procNull))
	back := (<-seen).(*backchannel)
	eventually(t, "reply sent", func() bool { return len(back.c.free) == cap(back.c.free) })
	h.hold.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	word, done := uint32(0), make(chan error, 1)
	runCall := func() { done <- back.Call(ctx, pingCall(&word)) }
	go runCall()
	held := <-h.wcs
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-within(t, patience).Done():
		t.Error("the call waits for its Send")
	}
	var q Header
	eventually(t, "call sent", func() bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		if len(conn.sent) == 1 {
			q = conn.sent[0]
		}
		return len(conn.sent) == 1
	})
	reply := Header{XID: q.XID, Version: Version1, Credits: 1, Proc: wire.ProcMsg}
	deliver(reply, rpcAccepted(q.XID, 5))
	eventually(t, "reply taken", func() bool {
		back.mu.Lock()
		defer back.mu.Unlock()
		return back.slots[q.XID].state == slotDraining
	})
	if n := back.credits.Usage().Used; n != 1 {
		t.Errorf("%d credits used", n)
	}
	conn.mu.Lock()
	conn.done = append(conn.done, held)
	conn.ready.Broadcast()
	conn.mu.Unlock()
	eventually(t, "credit free", func() bool { return back.credits.Usage().Used == 0 })
	back.mu.Lock()
	if len(back.free) != 2 || len(back.slots) != 0 {
		t.Errorf("%d slots free", len(back.free))
	}
	back.mu.Unlock()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-served
}
