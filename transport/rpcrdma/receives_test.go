package rpcrdma

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
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

// TestReceivesBeforeNextCall: when a reply has come, and when one has come too
// late, its receive is posted again before anybody can make another call.
func TestReceivesBeforeNextCall(t *testing.T) {
	conn := &repostConn{scriptConn: &scriptConn{}}
	d := NewDialer(DialerConfig{Device: overScript{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 4, StallLimit: time.Minute})
	tl, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l := tl.(*link)
	woken := make(chan bool, 1)
	conn.look = func() { woken <- l.batch.Empty() } // on the reaper's goroutine
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
		h := Header{XID: xid, Version: Version1, Credits: 4, Proc: wire.ProcMsg}
		conn.deliver(append(encodeHeader(&h), rpcAccepted(xid, 5)...), 0)
		if <-woken {
			t.Errorf("late %v: woken before there was a receive", late)
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

// grantSide records of each message sent what it grants, and how many receives
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
		dev.reqs <- scriptRequest{conn, func(c serverSide) verbs.Conn { return grantSide{c, grants} }}
		eventually(t, "receives", func() bool { return conn.receives() > 0 })
		for _, ask := range []uint32{firstReceives + 1, 1, 40, 128} {
			h := msgHeader(5, wire.Lists{})
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

// TestReceivesForBackwardCalls has as many outstanding backward calls as a client
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

// TestReceivesForBackwardReplies has as many outstanding calls as a server grants:
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
	dev.reqs <- scriptRequest{conn: conn}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	for xid := range uint32(credits) {
		h := msgHeader(xid, wire.Lists{})
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
