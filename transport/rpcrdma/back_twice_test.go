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

// heldBackward is a server whose Sends on its only connection do not complete, and
// the backchannel of that connection.
type heldBackward struct {
	srv    *Server
	served chan error
	conn   *scriptConn
	sends  *heldSends
	back   *backchannel
}

func newHeldBackward(t *testing.T) *heldBackward {
	t.Helper()
	dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
	r := &heldBackward{conn: &scriptConn{}, sends: &heldSends{wcs: make(chan verbs.Completion, 1)}, served: make(chan error, 1)}
	seen := make(chan transport.Backchannel, 1)
	srv, err := NewServer(dev, backSwitch{seen}, ServerConfig{InlineIn: 1024, InlineOut: 1024, Backward: 2})
	if err != nil {
		t.Fatal(err)
	}
	r.srv = srv
	runServe := func() { r.served <- srv.Serve(context.Background(), dev) }
	go runServe()
	dev.reqs <- scriptRequest{r.conn, func(c serverSide) verbs.Conn { return holdSide{c, r.sends} }}
	eventually(t, "receives", func() bool { return r.conn.receives() > 0 })
	r.deliver(msgHeader(1, wire.Lists{}), rpcCall(1, procNull))
	r.back = (<-seen).(*backchannel)
	eventually(t, "reply sent", func() bool { return len(r.back.c.free) == cap(r.back.c.free) })
	r.sends.hold.Store(true)
	return r
}

// deliver has a message arrive at the server.
func (r *heldBackward) deliver(h Header, body []byte) {
	r.conn.deliver(append(encodeHeader(&h), body...), 0)
}

// sent awaits the backward call and returns the header of its reply.
func (r *heldBackward) sent(t *testing.T) (reply Header) {
	t.Helper()
	eventually(t, "call sent", func() bool {
		r.conn.mu.Lock()
		defer r.conn.mu.Unlock()
		if len(r.conn.sent) == 1 {
			reply = Header{XID: r.conn.sent[0].XID, Version: Version1, Credits: 1, Proc: wire.ProcMsg}
		}
		return len(r.conn.sent) == 1
	})
	return reply
}

// complete completes the Send that was held.
func (r *heldBackward) complete(held verbs.Completion) {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	r.conn.done = append(r.conn.done, held)
	r.conn.ready.Broadcast()
}

func (r *heldBackward) close(t *testing.T) {
	t.Helper()
	if err := r.srv.Close(); err != nil {
		t.Error(err)
	}
	<-r.served
}

// TestBackwardReplyTwice has a second reply come to a backward call that has its
// first one and waits for its Send: it changes nothing.
func TestBackwardReplyTwice(t *testing.T) {
	r := newHeldBackward(t)
	word, done := uint32(0), make(chan error, 1)
	runCall := func() { done <- r.back.Call(within(t, patience), pingCall(&word)) }
	go runCall()
	held := <-r.sends.wcs
	reply := r.sent(t)
	r.deliver(reply, rpcAccepted(reply.XID, 5))
	eventually(t, "first reply taken", func() bool {
		return r.back.Has(reply.XID) && r.back.Usage().Replied == 1
	})
	r.deliver(reply, rpcAccepted(reply.XID, 6))
	eventually(t, "second reply ignored", func() bool { return r.srv.Stats().Ignored == 1 })
	r.complete(held)
	if err := <-done; err != nil || word != 5 {
		t.Errorf("%d, %v", word, err)
	}
	r.close(t)
}

// TestBackwardGivenUpBeforeSent gives up a backward call whose Send has not completed: its caller does not wait, and its
// slot and credit are free when both the Send has completed and the reply has come, whichever is first.
func TestBackwardGivenUpBeforeSent(t *testing.T) {
	r := newHeldBackward(t)
	ctx, cancel := context.WithCancel(context.Background())
	word, done := uint32(0), make(chan error, 1)
	runCall := func() { done <- r.back.Call(ctx, pingCall(&word)) }
	go runCall()
	held := <-r.sends.wcs
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-within(t, patience).Done():
		t.Error("the call waits for its Send")
	}
	reply := r.sent(t)
	r.deliver(reply, rpcAccepted(reply.XID, 5))
	eventually(t, "reply taken", func() bool {
		return r.back.Has(reply.XID) && r.back.Usage().Draining == 1
	})
	if n := r.back.Credits().Usage().Used; n != 1 {
		t.Errorf("%d credits used", n)
	}
	r.complete(held)
	eventually(t, "credit free", func() bool { return r.back.Credits().Usage().Used == 0 })
	if u := r.back.Usage(); u.Free != 2 || u.Outstanding != 0 {
		t.Errorf("%d slots free", u.Free)
	}
	r.close(t)
}
