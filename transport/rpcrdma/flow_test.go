package rpcrdma

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// TestOneCallBeforeTheFirstGrant has many callers on a new connection: one call
// comes, and none more until it is answered.
func TestOneCallBeforeTheFirstGrant(t *testing.T) {
	alone := make(chan error, 1)
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		if p.pending() {
			err = fmt.Errorf("another call before the first reply")
		}
		alone <- err
		if err := p.send(q.inline(5)); err != nil {
			return err
		}
		return answerAll(5)(p)
	})
	r := dialPeer(t, addr, nil)
	var calls sync.WaitGroup
	for i := range 32 {
		calls.Go(func() {
			if err := r.Exchange(within(t, patience), uint32(i), pingCall(nil)); err != nil {
				t.Error(err)
			}
		})
	}
	if err := <-alone; err != nil {
		t.Error(err)
	}
	calls.Wait()
}

// TestGrantBoundsConcurrent: what callers are told to make use of is what the server grants, once it has.
func TestGrantBoundsConcurrent(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		for credits := uint32(5); ; credits = 100 {
			q, err := p.call()
			if err != nil {
				return err
			}
			if err := p.send(append(q.header(wire.ProcMsg, credits, wire.Lists{}), rpcAccepted(q.XID, 5)...)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, nil)
	for _, want := range []int{16, 5, 16} {
		if n := r.d.Limits().Concurrent; n != want {
			t.Errorf("%d calls are of use, want %d", n, want)
		}
		if err := r.do(within(t, patience), pingCall(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestErrorIsNoFirstGrant has the first answer be an error, whose credits say
// nothing yet.
func TestErrorIsNoFirstGrant(t *testing.T) {
	for version, code := range map[uint32]wire.ErrCode{Version1: wire.ErrChunk, Version2: wire.ErrSystem} {
		addr := startPeer(t, peerSizes(1024), answersFirst(func(q *peerCall) []byte {
			return encodeHeader(&Header{XID: q.XID, Version: q.Version, Credits: 32, Proc: wire.ProcError, Err: code})
		}))
		r := dialPeer(t, addr, func(c *DialerConfig) { c.TryVersion2 = version == Version2 })
		wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Answered, transport.ErrProtocol)
		if n := r.Credits().Current(); n != 1 {
			t.Errorf("version %d: %d credits after an error", version, n)
		}
		if err := r.do(within(t, patience), pingCall(nil)); err != nil {
			t.Error(err)
		}
		if n := r.Credits().Current(); n != 16 {
			t.Errorf("version %d: %d credits", version, n)
		}
	}
}

// TestRequestsUpAndDown asks for more and fewer credits from call to call, and
// uses at once all that is granted.
func TestRequestsUpAndDown(t *testing.T) {
	const most = 24
	s := startServer(t, ServerConfig{Credits: most})
	c := dialRaw(t, s.addr, peerSizes(4096))
	xid := uint32(0)
	for _, ask := range []uint32{1, 16, 2, most, 0, 100, 7, 1, most} {
		want := max(1, min(ask, most))
		h := msgHeader(xid, wire.Lists{})
		h.Credits = ask
		c.call(h, rpcCall(xid, procNull))
		xid++
		if h, _ := c.reply(); h.Credits != want {
			t.Fatalf("asked for %d, got %d, want %d", ask, h.Credits, want)
		}
		first := xid
		for ; xid < first+want; xid++ {
			h := msgHeader(xid, wire.Lists{})
			h.Credits = ask
			c.call(h, rpcCall(xid, procNull))
		}
		seen := map[uint32]bool{}
		for range want {
			h, body := c.reply()
			if !bytes.Equal(body, rpcAccepted(h.XID)) || h.XID < first || h.Credits != want {
				t.Errorf("got %+v, %x", h, body)
			}
			seen[h.XID] = true
		}
		if len(seen) != int(want) {
			t.Errorf("%d of %d calls answered", len(seen), want)
		}
	}
	if st := s.Stats(); st.Drops != 0 {
		t.Errorf("statistics %+v", st)
	}
}

// TestPrivateDataBothWays looks at what each side shows, and at the thresholds
// that both draw from it.
func TestPrivateDataBothWays(t *testing.T) {
	for _, c := range []struct{ send, recv, in, out int }{
		{4096, 4096, 4096, 4096}, {1024, 65536, 8192, 16384}, {65536, 1024, 1024, 262144}, {8192, 2048, 4096, 1024},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			caps := iwarp.Open(iwarp.Config{}).Caps()
			s := startServer(t, ServerConfig{InlineIn: c.in, InlineOut: c.out})
			raw := dialRaw(t, s.addr, wire.PrivateData{SendSize: c.send, RecvSize: c.recv}.Append(nil))
			want := []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, byte(c.out/1024 - 1), byte(c.in/1024 - 1)}
			if got := raw.conn.PrivateData(); !bytes.Equal(got, want) {
				t.Errorf("the server shows %x, want %x", got, want)
			}
			// A reply as long as both allow, and a word more.
			words := uint32(min(c.out, c.recv)-wire.EmptyLen1-24) / 4
			raw.call(msgHeader(1, wire.Lists{}), rpcCall(1, procList, words))
			if h, body := raw.reply(); h.Proc != wire.ProcMsg || len(body) != 24+4*int(words) {
				t.Errorf("%d words: %+v and %d bytes", words, h, len(body))
			}
			raw.call(msgHeader(2, wire.Lists{}), rpcCall(2, procList, words+1))
			raw.wantError(2, wire.ErrChunk)

			r := dialPeer(t, s.addr, func(d *DialerConfig) { d.InlineSend, d.InlineRecv = c.send, c.recv })
			if r.Terms().SendInline != min(c.send, c.in) || r.Terms().RecvInline != min(c.recv, c.out) {
				t.Errorf("terms %+v", r.Terms())
			}
			want[5] = 0
			if caps.RemoteInvalidate {
				want[5] = 1
			}
			want[6], want[7] = byte(c.send/1024-1), byte(c.recv/1024-1)
			if got := shownByDialer(t, c.send, c.recv); !bytes.Equal(got, want) {
				t.Errorf("the client shows %x, want %x", got, want)
			}
			testShapes(t, r)
		})
	}
}

// shownByDialer is the private data of a requester with those sizes, to which the
// listener then says no.
func shownByDialer(t *testing.T, send, recv int) []byte {
	t.Helper()
	ours, theirs := iwarp.Open(iwarp.Config{}), iwarp.Open(iwarp.Config{})
	ln, err := theirs.Listen(netip.MustParseAddrPort("127.0.0.1:0"), verbs.ListenOptions{Backlog: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := NewDialer(DialerConfig{Device: ours, Addr: ln.Addr(), InlineSend: send, InlineRecv: recv})
	failed := make(chan error, 1)
	runDial := func() {
		_, err := d.Dial(within(t, patience))
		failed <- err
	}
	go runDial()
	req, err := ln.Accept(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	b := req.PrivateData()
	if err := req.Reject(nil); err != nil {
		t.Error(err)
	}
	if <-failed == nil {
		t.Error("connected")
	}
	if err := errors.Join(d.Close(), ln.Close(), ours.Close(), theirs.Close()); err != nil {
		t.Error(err)
	}
	return b
}

// TestErrorGrantsNothingBackward: RDMA_ERROR does not say in which direction its
// credits go, so they are not believed.
func TestErrorGrantsNothingBackward(t *testing.T) {
	s, seen := startBack(t, ServerConfig{Backward: 8})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procNull))
	c.reply()
	back := <-seen
	results := make(chan error, 3)
	for range 3 {
		runCall := func() { results <- back.Call(within(t, patience), pingCall(nil)) }
		go runCall()
	}
	h, _ := c.reply()
	c.send(xdrWords(h.XID, 1, 8, uint32(wire.ProcError), uint32(wire.ErrChunk)), nil)
	if err := <-results; err == nil {
		t.Error("an error was no failure")
	}
	h, _ = c.reply()
	c.call(msgHeader(2, wire.Lists{}), rpcCall(2, procNull))
	if h, _ := c.reply(); h.XID != 2 {
		t.Errorf("two calls under the one credit that there is at first: %+v", h)
	}
	for i := range 2 {
		c.call(Header{XID: h.XID, Version: 1, Credits: 1}, rpcAccepted(h.XID, 5))
		if err := <-results; err != nil {
			t.Error(err)
		}
		if i == 0 {
			h, _ = c.reply()
		}
	}
}
