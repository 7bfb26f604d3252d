package rpcrdma

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// heldSide is a serverSide that does not get its requests to open memory posted
// before release is closed.
type heldSide struct {
	serverSide
	held, release chan struct{}
}

func (c heldSide) PostAndReap(wrs []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	if wrs[0].Op == verbs.OpBind {
		close(c.held)
		<-c.release
	}
	return c.serverSide.PostAndReap(wrs, wc)
}

// TestDoneBeforeReply has a client send RDMA_DONE for a reply that is still being
// posted: nothing of the server's memory stays open to it.
func TestDoneBeforeReply(t *testing.T) {
	dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
	conn := &scriptConn{}
	srv, err := NewServer(dev, fuzzProgram{}, ServerConfig{InlineIn: 1024, InlineOut: 1024, ReadReplies: true})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	runServe := func() { served <- srv.Serve(context.Background(), dev) }
	go runServe()
	held, release := make(chan struct{}), make(chan struct{})
	dev.reqs <- scriptRequest{conn, func(c serverSide) verbs.Conn { return heldSide{c, held, release} }}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	h := msgHeader(5, wire.Lists{})
	conn.deliver(append(encodeHeader(&h), rpcCall(5, 1, 0, 4000, 1, 3)...), 0)
	<-held
	conn.deliver(xdrWords(5, 1, 1, uint32(wire.ProcDone)), 0)
	var c *serverConn
	srv.mu.Lock()
	for c = range srv.conns {
	}
	srv.mu.Unlock()
	eventually(t, "RDMA_DONE dealt with", func() bool { return srv.Stats().Dones == 1 && len(c.free) == cap(c.free)-1 })
	close(release)
	eventually(t, "memory back", func() bool { return srv.Stats().Memory.Leases == 0 })
	conn.mu.Lock()
	if len(conn.bound) > 0 || conn.closed {
		t.Errorf("%d keys are valid", len(conn.bound))
	}
	conn.mu.Unlock()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

// doneConn has a look taken before each RDMA_DONE is posted.
type doneConn struct {
	*scriptConn
	look func()
}

func (c *doneConn) PostSend(wrs []verbs.SendWR) (int, error) {
	for _, wr := range wrs {
		if b := make([]byte, wr.Local.Len()); wr.Op == verbs.OpSend && wr.Local.CopyOut(0, b) >= wire.FixedLen && wire.Proc(beUint32(b[12:])) == wire.ProcDone {
			c.look()
		}
	}
	return c.scriptConn.PostSend(wrs)
}

// TestDoneUnderTheCredit has a call wait for the only credit, which is that of a
// reply by read chunks, and then that of one that came too late: it goes on waiting
// until RDMA_DONE has been posted.
func TestDoneUnderTheCredit(t *testing.T) {
	conn := &doneConn{scriptConn: &scriptConn{}}
	d, l, a := dialScript(t, DialerConfig{Device: overScript{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 4, ReadReplies: true, StallLimit: time.Minute}, 1<<16)
	waiting := func() int {
		return l.Credits().Usage().Waiting
	}
	looks := make(chan int, 1)
	conn.look = func() { looks <- waiting() }
	ctx, cancel := context.WithCancel(context.Background())
	results := map[uint32]chan error{}
	start := func(ctx context.Context, xid uint32, exchange func(context.Context, uint32, *transport.Call) error) {
		results[xid] = make(chan error, 1)
		runExchange := func() {
			got := 0
			results[xid] <- exchange(ctx, xid, readCall(mem.Vec{a.Seg(int(xid)*4096, 3000)}, &got))
		}
		go runExchange()
	}
	sent := func(xid uint32) {
		eventually(t, "call sent", func() bool {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			return len(conn.sent) > 0 && conn.sent[len(conn.sent)-1].XID == xid
		})
	}
	answer := func(xid uint32) {
		h := Header{XID: xid, Version: Version1, Credits: 1, Proc: wire.ProcMsg, Lists: wire.Lists{Read: []wire.ReadSegment{rseg(28, 3000)}}}
		conn.deliver(append(encodeHeader(&h), rpcAccepted(xid, 3000)...), 0)
	}
	start(context.Background(), 1, l.Exchange)
	sent(1)
	start(ctx, 2, l.Exchange)
	eventually(t, "a call that waits", func() bool { return waiting() == 1 })
	answer(1)
	if n := <-looks; n != 1 {
		t.Errorf("%d calls wait, the credit was given back before RDMA_DONE", n)
	}
	if err := <-results[1]; err != nil {
		t.Error(err)
	}
	sent(2)
	cancel()
	wantFate(t, <-results[2], transport.Unknown, context.Canceled)
	// A live call would have the link replaced, whose only credit is lost.
	start(context.Background(), 3, l.ExchangeOverdue)
	eventually(t, "a call that waits", func() bool { return waiting() == 1 })
	answer(2)
	if n := <-looks; n != 1 {
		t.Errorf("%d calls wait, the credit of a call given up was given back before RDMA_DONE", n)
	}
	sent(3)
	answer(3)
	<-looks
	if err := <-results[3]; err != nil {
		t.Error(err)
	}
	if err := errors.Join(l.Close(), d.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}
