package rpcrdma

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs"
)

// repostConn has a look taken before receives are posted again.
type repostConn struct {
	*scriptConn
	look func()
}

func (c *repostConn) PostRecv(wrs []verbs.RecvWR) (int, error) {
	c.look()
	return c.scriptConn.PostRecv(wrs)
}

type repostDevice struct {
	*scriptDevice
	conn *repostConn
}

func (d repostDevice) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	_, err := d.scriptDevice.Dial(ctx, to, o)
	return d.conn, err
}

// TestReceivesBeforeNextCall: when a reply has come, and when one has come too
// late, its receive is posted again before anybody can make another call.
func TestReceivesBeforeNextCall(t *testing.T) {
	conn := &repostConn{scriptConn: &scriptConn{}}
	d := NewDialer(DialerConfig{Device: repostDevice{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 4, StallLimit: time.Minute})
	tl, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l := tl.(*link)
	told := make(chan bool, 1)
	conn.look = func() { told <- len(l.wakeups)+l.released == 0 } // on the reaper's goroutine
	for xid, late := range []bool{false, true} {
		xid := uint32(xid)
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan error, 1)
		runExchange := func() { over <- l.Exchange(ctx, xid, pingCall(nil)) }
		go runExchange()
		eventually(t, "call sent", func() bool {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			return len(conn.sent) == int(xid)+1
		})
		if late {
			cancel()
			wantFate(t, <-over, transport.Unknown, context.Canceled)
		}
		h := Header{XID: xid, Version: Version1, Credits: 4, Proc: Msg}
		conn.deliver(append(encodeHeader(&h), rpcAccepted(xid, 5)...), 0)
		if <-told {
			t.Errorf("late %v: told before there was a receive", late)
		}
		if !late {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		cancel()
	}
	if err := errors.Join(l.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// grantSide tells of each message sent what it grants, and how many receives
// there were for it.
type grantSide struct {
	serverSide
	grants chan [2]int
}

func (c grantSide) PostAndReap(wrs []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	msg := wrs[len(wrs)-1].Local
	b := make([]byte, msg.Len())
	msg.CopyOut(0, b)
	c.grants <- [2]int{int(beUint32(b[8:])), c.receives()}
	return c.serverSide.PostAndReap(wrs, wc)
}

type grantRequest struct {
	scriptRequest
	grants chan [2]int
}

func (r grantRequest) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	c, err := r.scriptRequest.Accept(ctx, o)
	return grantSide{c.(serverSide), r.grants}, err
}

// TestReceivesBeforeTheGrant: what a message grants, be it a reply or an error, has
// receives when it is sent.
func TestReceivesBeforeTheGrant(t *testing.T) {
	for name, call := range map[string][]byte{"reply": rpcCall(5, procNull), "error": rpcCall(6, procNull)} {
		dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
		conn := &scriptConn{}
		srv, err := NewServer(dev, newTestProgram(), ServerConfig{InlineIn: 1024, InlineOut: 1024})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		runServe := func() { served <- srv.Serve(context.Background(), dev) }
		go runServe()
		grants := make(chan [2]int, 1)
		dev.reqs <- grantRequest{scriptRequest{conn}, grants}
		eventually(t, "receives", func() bool { return conn.receives() > 0 })
		for _, ask := range []uint32{firstReceives + 1, 1, 40, 128} {
			h := msgHeader(5, Lists{})
			h.Credits = ask
			conn.deliver(append(encodeHeader(&h), call...), 0)
			if g := <-grants; g[0] != int(ask) || g[1] < g[0] {
				t.Errorf("%s to a call that asks for %d: grants %d, with %d receives", name, ask, g[0], g[1])
			}
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	}
}

// readSide keeps RDMA Reads from completing.
type readSide struct {
	serverSide
	held *heldReads
}

type heldReads struct {
	mu  sync.Mutex
	wcs []verbs.Completion
}

func (h *heldReads) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.wcs)
}

func (c readSide) PostSend(wrs []verbs.SendWR) (int, error) {
	if wrs[0].Op != verbs.OpRead {
		return c.serverSide.PostSend(wrs)
	}
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	for _, wr := range wrs {
		clear(wr.Local[0].Bytes())
		c.held.wcs = append(c.held.wcs, verbs.Completion{ID: wr.ID, Op: wr.Op})
	}
	return len(wrs), nil
}

type readRequest struct {
	scriptRequest
	held *heldReads
}

func (r readRequest) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	c, err := r.scriptRequest.Accept(ctx, o)
	return readSide{c.(serverSide), r.held}, err
}

// TestServerLimitsReads has a client that serves few RDMA Reads at a time, as its
// connection says, or fewer, as it tells by the Connection Configuration Protocol.
func TestServerLimitsReads(t *testing.T) {
	const segments = 9
	for name, most := range map[string]int{"by the connection": 4, "configured": 3} {
		t.Run(name, func(t *testing.T) {
			dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
			conn, held := &scriptConn{}, &heldReads{}
			srv, err := NewServer(dev, newTestProgram(), ServerConfig{InlineIn: 1024, InlineOut: 1024})
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			runServe := func() { served <- srv.Serve(context.Background(), dev) }
			go runServe()
			dev.reqs <- readRequest{scriptRequest{conn}, held}
			eventually(t, "receives", func() bool { return conn.receives() > 0 })
			answered := uint64(0)
			if name == "configured" {
				h := msgHeader(1, Lists{})
				conn.deliver(append(encodeHeader(&h), ccpCall(1, 1, 1, 1024, 1024, uint32(most))...), 0)
				answered++
				eventually(t, "configured", func() bool { return srv.Stats().Replies == answered })
			}
			var c *serverConn
			srv.mu.Lock()
			for c = range srv.conns {
			}
			srv.mu.Unlock()
			body, pos := sumCall(2, 4*segments)
			h := msgHeader(2, Lists{})
			for range segments {
				h.Lists.Read = append(h.Lists.Read, rseg(pos, 4))
			}
			conn.deliver(append(encodeHeader(&h), body...), 0)
			// One more waits each time for one to complete.
			for done := 0; done < segments; done++ {
				want := min(most, segments-done)
				eventually(t, "reads under way", func() bool {
					return held.len() == want && (len(c.reads) == cap(c.reads) || done > segments-most)
				})
				held.mu.Lock()
				wc := held.wcs[0]
				held.wcs = held.wcs[1:]
				held.mu.Unlock()
				conn.mu.Lock()
				conn.done = append(conn.done, wc)
				conn.ready.Broadcast()
				conn.mu.Unlock()
			}
			eventually(t, "reply", func() bool { return srv.Stats().Replies == answered+1 })
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
			<-served
		})
	}
}
