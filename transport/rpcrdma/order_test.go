package rpcrdma

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
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

// ReadsOut is less than what the device has.
func (readSide) ReadsOut() int { return 3 }

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
	for name, most := range map[string]int{"by the connection": 3, "configured": 2} {
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

// strictConn notes local invalidations of keys that are not bound, which adapters
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

type strictDevice struct {
	*scriptDevice
	conn *strictConn
}

func (d strictDevice) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	_, err := d.scriptDevice.Dial(ctx, to, o)
	return d.conn, err
}

// TestForeignKeyIsDead has the answer to one call invalidate the key of another:
// that one is not made invalid again.
func TestForeignKeyIsDead(t *testing.T) {
	conn := &strictConn{scriptConn: &scriptConn{}}
	d := NewDialer(DialerConfig{Device: strictDevice{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 4, StallLimit: time.Minute})
	a, err := mem.NewArena(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Register(a); err != nil {
		t.Fatal(err)
	}
	tl, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	answer := func(q Header, invalidate uint32) {
		h := Header{XID: q.XID, Version: Version1, Credits: 4, Proc: Msg}
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
			over <- tl.Exchange(context.Background(), xid, readCall(mem.Vec{a.Seg(int(xid)*8192, 8192)}, &got))
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
	if err := errors.Join(tl.Close(), d.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

// TestReceivesForBackwardCalls has as many backward calls under way as a client
// grants: there are receives for the replies to all calls of its own.
func TestReceivesForBackwardCalls(t *testing.T) {
	const credits, granted = 4, 32
	conn, callbacks := &scriptConn{}, newTestProgram()
	d := NewDialer(DialerConfig{
		Device: &scriptDevice{conn: conn}, Credits: credits, Callbacks: callbacks, CallbackCredits: granted, StallLimit: time.Minute,
	})
	l, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	all := conn.receives()
	for xid := range uint32(granted) {
		conn.deliver(backCallWords(xid, granted, procHold), 0)
	}
	for range granted {
		select {
		case <-callbacks.holding:
		case <-l.Done():
			t.Fatal(l.Err())
		}
	}
	if n := conn.receives(); n < credits {
		t.Errorf("%d receives for the replies to %d calls", n, credits)
	}
	close(callbacks.release)
	eventually(t, "all receives posted again", func() bool { return conn.receives() == all })
	if err := errors.Join(l.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestReceivesForBackwardReplies has as many calls under way as a server grants:
// there are receives for the replies to all backward calls that it may make.
func TestReceivesForBackwardReplies(t *testing.T) {
	const credits, backward = 4, 32
	dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
	conn, program := &scriptConn{}, newTestProgram()
	srv, err := NewServer(dev, program, ServerConfig{InlineIn: 1024, InlineOut: 1024, Credits: credits, Backward: backward})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	runServe := func() { served <- srv.Serve(context.Background(), dev) }
	go runServe()
	dev.reqs <- scriptRequest{conn}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	for xid := range uint32(credits) {
		h := msgHeader(xid, Lists{})
		conn.deliver(append(encodeHeader(&h), rpcCall(xid, procHold)...), 0)
		<-program.holding
	}
	if n := conn.receives(); n < backward {
		t.Errorf("%d receives for the replies to %d calls", n, backward)
	}
	close(program.release)
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

// TestKeysDieBeforeResults: when results are looked at, the peer can change nothing
// in them any more.
func TestKeysDieBeforeResults(t *testing.T) {
	conn := &scriptConn{}
	d := NewDialer(DialerConfig{Device: &scriptDevice{conn: conn}, Credits: 4, StallLimit: time.Minute})
	a, err := mem.NewArena(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Register(a); err != nil {
		t.Fatal(err)
	}
	l, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
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
		h := Header{XID: q.XID, Version: Version1, Credits: 4, Proc: Msg}
		conn.deliver(append(encodeHeader(&h), rpcAccepted(q.XID, 0)...), 0)
		if err := <-over; err != nil || bound != 0 {
			t.Errorf("call %d: %d keys are valid when its results are looked at, %v", xid, bound, err)
		}
	}
	if err := errors.Join(l.Close(), d.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

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

type holdRequest struct {
	scriptRequest
	h *heldSends
}

func (r holdRequest) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	c, err := r.scriptRequest.Accept(ctx, o)
	return holdSide{c.(serverSide), r.h}, err
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
	dev.reqs <- holdRequest{scriptRequest{conn}, h}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	deliver := func(h Header, body []byte) { conn.deliver(append(encodeHeader(&h), body...), 0) }
	deliver(msgHeader(1, Lists{}), rpcCall(1, procNull))
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
	reply := Header{XID: q.XID, Version: Version1, Credits: 1, Proc: Msg}
	deliver(reply, rpcAccepted(q.XID, 5))
	eventually(t, "first reply taken", func() bool {
		back.mu.Lock()
		defer back.mu.Unlock()
		return !back.slots[q.XID].waiting
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
