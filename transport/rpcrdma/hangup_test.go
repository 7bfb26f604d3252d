package rpcrdma

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestHangUp closes the connection at each step of calls of each kind.
func TestHangUp(t *testing.T) {
	for _, step := range []string{"at once", "after the call", "after the data", "after the reply"} {
		for _, kind := range []string{"inline", "read", "write", "list"} {
			t.Run(kind+" "+step, func(t *testing.T) {
				addr := startPeer(t, peerSizes(1024), func(p *peer) error {
					defer p.conn.Close()
					if step == "at once" {
						return nil
					}
					q, err := p.call()
					if err != nil || step == "after the call" {
						return err
					}
					switch kind {
					case "read":
						_, err = p.write(q.Lists.Write[0], make([]byte, 100))
					case "write":
						_, err = p.readAll(q.Lists.Read)
					case "list":
						_, err = p.write(q.Lists.Reply, rpcAccepted(q.XID, 0))
					}
					if err != nil || step == "after the data" {
						return err
					}
					if err := p.send(q.inline(0)); err != nil {
						return err
					}
					_, err = p.wait(verbs.OpRecv) // the next call means that the reply has come
					return err
				})
				r := dialPeer(t, addr, nil)
				n := 0
				call := map[string]*transport.Call{
					"inline": pingCall(nil), "list": pingCall(nil),
					"read":  readCall(mem.Vec{r.arena.Seg(0, 65536)}, &n),
					"write": writeCall(mem.Vec{r.arena.Seg(0, 65536)}),
				}[kind]
				if kind == "list" {
					call.ReplyMax = 65536
				}
				err := r.do(within(t, patience), call)
				if step == "after the reply" {
					if err != nil {
						t.Fatal(err)
					}
					err = r.do(within(t, patience), call)
				}
				var te *transport.Error
				var ce *verbs.ConnError
				if !errors.As(err, &te) || te.Fate == transport.Answered || !errors.As(err, &ce) {
					t.Fatalf("got %v", err)
				}
				<-r.Done()
				wantFate(t, r.do(within(t, patience), call), transport.NotSent, nil)
			})
		}
	}
}

// TestCloseUnderWay closes the link under calls that wait for a reply, for a
// credit and for a long buffer.
func TestCloseUnderWay(t *testing.T) {
	sent := make(chan struct{}, 64)
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(append(q.header(wire.ProcMsg, 4, wire.Lists{}), rpcAccepted(q.XID, 5)...)); err != nil {
			return err
		}
		for {
			if _, err := p.call(); err != nil {
				return err
			}
			sent <- struct{}{}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.LongBytes = 3 * 8192 })
	wantAlive(t, r)
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			c := pingCall(nil)
			c.ReplyMax = 7000
			err := r.Exchange(context.Background(), uint32(i), c)
			var te *transport.Error
			if !errors.As(err, &te) || te.Fate == transport.Answered || !errors.Is(err, transport.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	}
	for range 3 { // the fourth credit's call waits for a long buffer
		<-sent
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
}

// TestStalledPeer has a peer that takes nothing off the wire: calls end soon
// after their context, and the link with them.
func TestStalledPeer(t *testing.T) {
	addr := startPeer(t, peerSizes(65536), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		return p.send(append(q.header(wire.ProcMsg, 1000, wire.Lists{}), rpcAccepted(q.XID, 5)...))
	})
	r := dialPeer(t, addr, func(c *DialerConfig) {
		c.Credits, c.InlineSend, c.InlineRecv, c.StallLimit = 512, 65536, 65536, 50*time.Millisecond
	})
	wantAlive(t, r)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	var calls sync.WaitGroup
	for i := range 512 {
		calls.Go(func() {
			err := r.Exchange(ctx, uint32(i), writeCall(mem.Vec{r.arena.Seg(0, 60000)}))
			var te *transport.Error
			if !errors.As(err, &te) || te.Fate == transport.Answered {
				t.Errorf("got %v", err)
			}
		})
	}
	calls.Wait()
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Error("the link goes on")
	}
}

// shortQueues is a device that claims to have short queues.
type shortQueues struct {
	verbs.Device
	depth int
}

func (d shortQueues) Caps() verbs.Caps {
	c := d.Device.Caps()
	c.MaxQueue = d.depth
	return c
}

// TestSendQueueFull has the peer take nothing off the wire until a caller found
// the send queue full; all calls must be made when it goes on.
func TestSendQueueFull(t *testing.T) {
	full := make(chan struct{})
	addr := startPeer(t, peerSizes(65536), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(append(q.header(wire.ProcMsg, 1000, wire.Lists{}), rpcAccepted(q.XID, 5)...)); err != nil {
			return err
		}
		<-full
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			back := withLength(q.Lists.Reply, 0, 0)
			if err := p.send(append(q.header(wire.ProcMsg, 1000, wire.Lists{Reply: back}), rpcAccepted(q.XID, 5)...)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) {
		c.Device = shortQueues{c.Device, 256}
		c.Credits, c.InlineSend, c.InlineRecv, c.StallLimit = 512, 65536, 1024, patience
		c.LongBytes = 64 << 20
	})
	pingIt := func() error { return r.do(within(t, patience), pingCall(nil)) }
	if err := pingIt(); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range 248 {
		calls.Go(func() {
			c := writeCall(mem.Vec{r.arena.Seg(0, 60000)})
			c.ReplyMax = 4096
			if err := r.Exchange(within(t, patience), uint32(i), c); err != nil {
				t.Error(err)
			}
		})
	}
	untilTrue(t, &r.mu, func() bool { return r.room != nil })
	close(full)
	calls.Wait()
}

// lateConn completes RDMA Reads when the answer to the call that they were for
// has been posted, and closes when it is let.
type lateConn struct {
	*scriptConn
	reading, answered, release chan struct{}
	read                       verbs.Completion
}

func (c *lateConn) PostSend(wrs []verbs.SendWR) (int, error) {
	if wrs[0].Op == verbs.OpRead {
		c.read = verbs.Completion{ID: wrs[0].ID, Op: verbs.OpRead}
		close(c.reading)
		return 1, nil
	}
	if wrs[0].ID == c.read.ID && c.read.Op != 0 {
		c.mu.Lock()
		c.done = append(c.done, c.read)
		c.mu.Unlock()
		defer close(c.answered)
	}
	return c.scriptConn.PostSend(wrs)
}

func (c *lateConn) Close() error {
	<-c.release
	return c.scriptConn.Close()
}

// TestHangupUnderBackwardCall has a link end while the chunk of a backward call is
// being read: completions that nobody waits for any more do not keep it.
func TestHangupUnderBackwardCall(t *testing.T) {
	conn := &lateConn{scriptConn: &scriptConn{}, reading: make(chan struct{}), answered: make(chan struct{}), release: make(chan struct{})}
	d := NewDialer(DialerConfig{
		Device: overScript{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 4, TryVersion2: true, Callbacks: newTestProgram(), StallLimit: time.Minute,
	})
	tl, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l := tl.(*link)
	h := Header{XID: 5, Version: Version2, Credits: 1, Proc: wire.ProcMsg, Lists: wire.Lists{Read: []wire.ReadSegment{rseg(44, 100)}}}
	conn.deliver(append(encodeHeader(&h), rpcCall(5, procSum, 100, 0xbbbb)...), 0)
	<-conn.reading
	failed := make(chan struct{})
	runFail := func() {
		l.Fail(errStalled)
		close(failed)
	}
	go runFail()
	<-conn.answered
	eventually(t, "completions taken", func() bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return len(conn.done) == 0
	})
	close(conn.release)
	<-failed
	closed := make(chan error, 1)
	runClose := func() { closed <- l.Close() }
	go runClose()
	select {
	case err := <-closed:
		if err := errors.Join(err, d.Close()); err != nil {
			t.Error(err)
		}
	case <-within(t, patience).Done():
		t.Fatal("the link does not end")
	}
}

// TestSendQueueFullOfSilence has the peer take what fills the send queue, and
// answer none of it before it has the calls that found no room.
func TestSendQueueFullOfSilence(t *testing.T) {
	const calls = 200 // of two requests
	full := make(chan struct{})
	addr := startPeer(t, peerSizes(65536), func(p *peer) error {
		q, err := p.call()
		if err == nil {
			err = p.send(append(q.header(wire.ProcMsg, 1000, wire.Lists{}), rpcAccepted(q.XID, 5)...))
		}
		<-full
		var all []*peerCall
		for err == nil && len(all) < calls {
			if q, err = p.call(); err == nil {
				all = append(all, q)
			}
		}
		for _, q := range all {
			if err == nil {
				back := withLength(q.Lists.Reply, 0, 0)
				err = p.send(append(q.header(wire.ProcMsg, 1000, wire.Lists{Reply: back}), rpcAccepted(q.XID, 5)...))
			}
		}
		return err
	})
	r := dialPeer(t, addr, func(c *DialerConfig) {
		c.Device = shortQueues{c.Device, 256}
		c.Credits, c.InlineSend, c.InlineRecv, c.StallLimit = 512, 65536, 1024, patience
		c.LongBytes = 64 << 20
	})
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			c := pingCall(nil)
			c.Args = func(w *xdr.Writer) { w.Opaque(make([]byte, 60000)) }
			c.ReplyMax = 4096
			if err := r.Exchange(within(t, patience), uint32(i), c); err != nil {
				t.Error(err)
			}
		})
	}
	untilTrue(t, &r.mu, func() bool { return r.room != nil })
	close(full)
	all.Wait()
}

// crampedConn has no room in its send queue while full is set. It records of each
// Send whether it was signaled.
type crampedConn struct {
	*scriptConn
	full     atomic.Bool
	signaled chan bool
}

func (c *crampedConn) PostSend(wrs []verbs.SendWR) (int, error) {
	if c.full.Load() {
		return 0, verbs.ErrQueueFull
	}
	c.signaled <- wrs[len(wrs)-1].Signaled
	return c.scriptConn.PostSend(wrs)
}

type crampedDevice struct {
	*scriptDevice
	conn *crampedConn
}

func (d crampedDevice) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	_, err := d.scriptDevice.Dial(ctx, to, o)
	return d.conn, err
}

// TestGivenUpBeforeItSignals gives up, before it is posted, the call whose Send was
// to be signaled once per quarter of the send queue: the next one is signaled instead.
func TestGivenUpBeforeItSignals(t *testing.T) {
	conn := &crampedConn{scriptConn: &scriptConn{}, signaled: make(chan bool, 1)}
	d := NewDialer(DialerConfig{Device: crampedDevice{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 4, StallLimit: time.Minute})
	tl, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l := tl.(*link)
	call := func(ctx context.Context, xid uint32) (signaled bool, err error) {
		over := make(chan error, 1)
		runExchange := func() { over <- l.Exchange(ctx, xid, pingCall(nil)) }
		go runExchange()
		signaled = <-conn.signaled
		h := Header{XID: xid, Version: Version1, Credits: 4, Proc: wire.ProcMsg}
		conn.deliver(append(encodeHeader(&h), rpcAccepted(xid, 5)...), 0)
		return signaled, <-over
	}
	for range l.sendQueue/4 - 1 {
		if signaled, err := call(t.Context(), 2); signaled || err != nil {
			t.Fatalf("signaled %v, %v", signaled, err)
		}
	}
	conn.full.Store(true)
	ctx := cancelledWhen(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.room != nil
	})
	wantFate(t, l.Exchange(ctx, 1, pingCall(nil)), transport.NotSent, context.Canceled)
	conn.full.Store(false)
	for _, want := range []bool{true, false} {
		signaled, err := call(t.Context(), 2)
		if signaled != want {
			t.Errorf("signaled: %v, want %v", signaled, want)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(l.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
