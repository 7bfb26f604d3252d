package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// backSwitch hands every Backchannel that it sees to the test.
type backSwitch struct{ seen chan transport.Backchannel }

func (p backSwitch) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	if q.Back != nil {
		p.seen <- q.Back
	}
	return transport.Success
}

// startBack starts a server that can call back.
func startBack(t *testing.T, cfg ServerConfig) (*serverRig, chan transport.Backchannel) {
	t.Helper()
	p := backSwitch{seen: make(chan transport.Backchannel, 100)}
	return startServerWith(t, cfg, p), p.seen
}

func nullCall() *transport.Call { return &transport.Call{Prog: 7, Vers: 1, Proc: procNull} }

// TestBackward has both halves call each other at once: forward calls that wait
// for nothing, backward calls with arguments, results and payloads both ways.
func TestBackward(t *testing.T) {
	for _, c := range []struct {
		version uint32
		inline  int
	}{{Version1, 1024}, {Version1, 4096}, {Version2, 4096}} {
		t.Run(fmt.Sprintf("version %d, inline %d", c.version, c.inline), func(t *testing.T) {
			version, inline := c.version, c.inline
			s, seen := startBack(t, ServerConfig{InlineIn: inline, InlineOut: inline, Backward: 8})
			callbacks := newTestProgram()
			r := dialPeer(t, s.addr, func(c *DialerConfig) {
				c.InlineSend, c.InlineRecv, c.Callbacks, c.CallbackCredits = inline, inline, callbacks, 5
				c.TryVersion2 = version == Version2
			})
			if err := r.do(within(t, patience), nullCall()); err != nil {
				t.Fatal(err)
			}
			back := <-seen
			a, err := mem.NewArena(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if version == Version2 {
				awaitLongBack(t, back, a, func() error {
					err := r.do(within(t, patience), nullCall())
					<-seen
					return err
				})
			}
			var callers sync.WaitGroup
			for i := range 16 {
				callers.Go(func() {
					for n := range 30 {
						if err := r.Exchange(within(t, patience), uint32(i<<16|n), nullCall()); err != nil {
							t.Error(err)
						}
						<-seen
					}
				})
				callers.Go(func() {
					send, recv := mem.Vec{a.Seg(i*8192, 300), a.Seg(i*8192+400, 401)}, mem.Vec{a.Seg(i*8192+1000, 700)}
					send.CopyIn(0, testPattern(701))
					for n := range 30 {
						var sum [2]uint32
						if err := back.Call(within(t, patience), sumOf(send, &sum)); err != nil || sum[0] != 701 {
							t.Errorf("%v, %v", sum, err)
						}
						got := 0
						if err := back.Call(within(t, patience), fillCall(recv, 600+n, &got)); err != nil || got != 600+n ||
							!bytes.Equal(recv[0].Bytes()[:got], testPattern(got)) {
							t.Errorf("%d, %v", got, err)
						}
						if err := back.Call(within(t, patience), listCall(100)); err != nil {
							t.Error(err)
						}
						if version == Version2 {
							longBackCalls(t, back, a, i)
						}
					}
				})
			}
			callers.Wait()
			n := uint64(16 * 30 * 3)
			if version == Version2 {
				n = 1 + 16*30*6
			}
			if got, st := r.d.Stats(), s.Stats(); got.Callbacks != n || st.BackwardCalls != n || got.BadReplies+got.BadXIDs != 0 || st.Ignored+st.ChunkErrors != 0 {
				t.Errorf("requester %+v, responder %+v", got, st)
			}
		})
	}
}

// awaitLongBack returns when a backward call has been made that does not fit
// inline: the responder makes them once it has the requester's properties, which
// come by a message of their own. call makes one forward.
func awaitLongBack(t *testing.T, back transport.Backchannel, a *mem.Arena, call func() error) {
	t.Helper()
	for {
		var sum [2]uint32
		err := back.Call(within(t, patience), sumOf(mem.Vec{a.Seg(0, 8001)}, &sum))
		if errors.Is(err, requester.ErrTooLong) {
			err = call()
		} else if err == nil {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// longBackCalls makes calls that do not fit inline, one way, the other, and both.
func longBackCalls(t *testing.T, back transport.Backchannel, a *mem.Arena, i int) {
	var sum [2]uint32
	send := mem.Vec{a.Seg(i*8192, 8001)}
	if err := back.Call(within(t, patience), sumOf(send, &sum)); err != nil || sum[0] != 8001 {
		t.Errorf("%v, %v", sum, err)
	}
	got, recv := 0, mem.Vec{a.Seg(512<<10+i*30000, 30000)}
	if err := back.Call(within(t, patience), fillCall(recv, 29999, &got)); err != nil || got != 29999 || !bytes.Equal(recv[0].Bytes()[:got], testPattern(got)) {
		t.Errorf("%d, %v", got, err)
	}
	both := listCall(3000)
	args := both.Args
	both.Args = func(w *xdr.Writer) {
		args(w)
		longArgs(3000)(w)
	}
	if err := back.Call(within(t, patience), both); err != nil {
		t.Error(err)
	}
}

// TestBackwardTooLong has calls and replies that do not fit inline.
func TestBackwardTooLong(t *testing.T) {
	s, seen := startBack(t, ServerConfig{InlineIn: 1024, InlineOut: 1024, Backward: 2})
	r := dialPeer(t, s.addr, func(c *DialerConfig) { c.InlineSend, c.InlineRecv, c.Callbacks = 1024, 1024, newTestProgram() })
	if err := r.do(within(t, patience), nullCall()); err != nil {
		t.Fatal(err)
	}
	back := <-seen
	long := nullCall()
	long.Args = longArgs(300)
	for range 3 { // more often than there are slots
		wantFate(t, back.Call(within(t, patience), long), transport.NotSent, requester.ErrTooLong)
	}
	for range 3 {
		wantFate(t, back.Call(within(t, patience), listCall(300)), transport.Answered, transport.ErrProtocol)
	}
	unknown := nullCall()
	unknown.Proc = 99
	var refused *transport.RPCError
	if err := back.Call(within(t, patience), unknown); !errors.As(err, &refused) || refused.Code != uint32(transport.ProcUnavail) {
		t.Errorf("got %v", err)
	}
	if err := back.Call(within(t, patience), listCall(200)); err != nil {
		t.Error(err)
	}
}

// TestBackwardThresholds has ends whose buffers for sending are larger than the
// other's for receiving: both keep to the smaller.
func TestBackwardThresholds(t *testing.T) {
	s, seen := startBack(t, ServerConfig{InlineIn: 1024, InlineOut: 4096, Backward: 2})
	r := dialPeer(t, s.addr, func(c *DialerConfig) { c.InlineSend, c.InlineRecv, c.Callbacks = 4096, 1024, newTestProgram() })
	if err := r.do(within(t, patience), nullCall()); err != nil {
		t.Fatal(err)
	}
	back := <-seen
	const words = (1024 - wire.EmptyLen1 - 40) / 4 // of arguments; of results there may be four more
	call := nullCall()
	call.Args = longArgs(words + 1)
	wantFate(t, back.Call(within(t, patience), call), transport.NotSent, requester.ErrTooLong)
	wantFate(t, back.Call(within(t, patience), listCall(words+5)), transport.Answered, transport.ErrProtocol)
	call.Args = longArgs(words)
	if err := back.Call(within(t, patience), call); err != nil {
		t.Error(err)
	}
	if err := back.Call(within(t, patience), listCall(words+4)); err != nil {
		t.Error(err)
	}
}

// TestBackwardEnds has connections end under backward calls.
func TestBackwardEnds(t *testing.T) {
	for _, who := range []string{"client", "server", "handler"} {
		t.Run(who, func(t *testing.T) {
			s, seen := startBack(t, ServerConfig{Backward: 4})
			callbacks := newTestProgram()
			r := dialPeer(t, s.addr, func(c *DialerConfig) { c.Callbacks = callbacks })
			if err := r.do(within(t, patience), nullCall()); err != nil {
				t.Fatal(err)
			}
			back := <-seen
			if err := back.Call(within(t, patience), nullCall()); err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 4)
			for range 4 {
				hold := nullCall()
				hold.Proc = procHold
				runCall := func() { failed <- back.Call(within(t, patience), hold) }
				go runCall()
			}
			for range 4 {
				<-callbacks.holding
			}
			switch who {
			case "client":
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			case "server":
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			case "handler":
				lose := nullCall()
				lose.Proc = procLose
				// No credit is left for it until one call is given up.
				ctx, cancel := context.WithCancel(within(t, patience))
				cancel()
				wantFate(t, back.Call(ctx, lose), transport.NotSent, context.Canceled)
				close(callbacks.release)
				for range 4 {
					if err := <-failed; err != nil {
						t.Error(err)
					}
				}
				wantFate(t, back.Call(within(t, patience), lose), transport.Unknown, nil)
			}
			if who != "handler" {
				for range 4 {
					wantFate(t, <-failed, transport.Unknown, nil)
				}
			}
			select {
			case <-back.Done():
			case <-within(t, patience).Done():
				t.Fatal("the backchannel does not end")
			}
			wantFate(t, back.Call(within(t, patience), nullCall()), transport.NotSent, transport.ErrClosed)
		})
	}
}

// backCallWords is a backward call of a scripted server.
func backCallWords(xid, credits uint32, proc uint32, args ...uint32) []byte {
	h := Header{XID: xid, Version: 1, Credits: credits, Proc: wire.ProcMsg}
	return append(encodeHeader(&h), rpcCall(xid, proc, args...)...)
}

// TestClientServesBackward sends a client calls of every kind, under the very
// XID of the forward call that is outstanding, and looks at what it answers.
func TestClientServesBackward(t *testing.T) {
	seg := wire.Segment{Handle: 1, Length: 4, Offset: 4}
	head := func(xid uint32, proc wire.Proc, l wire.Lists) []byte {
		h := Header{XID: xid, Version: 1, Credits: 9, Proc: proc, Lists: l}
		return encodeHeader(&h)
	}
	for _, c := range []struct {
		name string
		call func(xid uint32) []byte
		want func(xid uint32) []byte
	}{
		{"NULL", func(x uint32) []byte { return backCallWords(x, 9, procNull) },
			func(x uint32) []byte { return append(head(x, wire.ProcMsg, wire.Lists{}), rpcAccepted(x)...) }},
		{"results", func(x uint32) []byte { return backCallWords(x, 9, procList, 3) },
			func(x uint32) []byte { return append(head(x, wire.ProcMsg, wire.Lists{}), rpcAccepted(x, 0, 1, 2)...) }},
		{"payload", func(x uint32) []byte { return backCallWords(x, 9, procFill, 4, 1) },
			func(x uint32) []byte {
				return append(head(x, wire.ProcMsg, wire.Lists{}), rpcAccepted(x, 4, beUint32(testPattern(4)), 0)...)
			}},
		{"no such procedure", func(x uint32) []byte { return backCallWords(x, 9, 99) },
			func(x uint32) []byte {
				return append(head(x, wire.ProcMsg, wire.Lists{}), xdrWords(x, 1, 0, 0, 0, 3)...)
			}},
		{"garbage for arguments", func(x uint32) []byte { return backCallWords(x, 9, procSum, 77) },
			func(x uint32) []byte {
				return append(head(x, wire.ProcMsg, wire.Lists{}), xdrWords(x, 1, 0, 0, 0, 4)...)
			}},
		{"read chunk", func(x uint32) []byte {
			return append(head(x, wire.ProcMsg, wire.Lists{Read: []wire.ReadSegment{{Position: 40, Segment: seg}}}), rpcCall(x, procNull)...)
		}, nil},
		{"write chunk", func(x uint32) []byte {
			return append(head(x, wire.ProcMsg, wire.Lists{Write: []wire.Chunk{{seg}}}), rpcCall(x, procNull)...)
		}, nil},
		{"reply chunk", func(x uint32) []byte {
			return append(head(x, wire.ProcMsg, wire.Lists{Reply: wire.Chunk{seg}}), rpcCall(x, procNull)...)
		}, nil},
		{"long call", func(x uint32) []byte {
			return head(x, wire.ProcNoMsg, wire.Lists{Read: []wire.ReadSegment{{Segment: seg}}})
		}, nil},
		{"another XID inside", func(x uint32) []byte { return append(head(x, wire.ProcMsg, wire.Lists{}), rpcCall(x+1, procNull)...) }, nil},
		{"cut short", func(x uint32) []byte { return backCallWords(x, 9, procNull)[:28+12] }, nil},
		{"reply too long", func(x uint32) []byte { return backCallWords(x, 9, procList, 1000) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers := make(chan []byte, 1)
			addr := startPeer(t, peerSizes(1024), func(p *peer) error {
				q, err := p.call()
				if err != nil {
					return err
				}
				if err := p.send(c.call(q.XID)); err != nil {
					return err
				}
				w, err := p.wait(verbs.OpRecv)
				if err != nil {
					return err
				}
				answers <- bytes.Clone(p.recvs[w.ID].Bytes()[:w.Len])
				if err := p.send(q.inline(5)); err != nil {
					return err
				}
				return answerAll(5)(p)
			})
			r := dialPeer(t, addr, func(c *DialerConfig) { c.Callbacks, c.CallbackCredits = newTestProgram(), 9 })
			wantAlive(t, r)
			want := xdrWords(r.xid, 1, 9, uint32(wire.ProcError), uint32(wire.ErrChunk))
			if c.want != nil {
				want = c.want(r.xid)
			}
			if got := <-answers; !bytes.Equal(got, want) {
				t.Errorf("answered %x, want %x", got, want)
			}
			wantAlive(t, r)
		})
	}
}

// TestBackwardCreditsApart: backward credits follow the client's grants, one at
// first, while the forward ones stay what they are, and XIDs of one direction
// mean nothing in the other.
func TestBackwardCreditsApart(t *testing.T) {
	s, seen := startBack(t, ServerConfig{Backward: 4})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procNull))
	c.reply()
	back := <-seen
	results := make(chan error, 20)
	for range 20 {
		runCall := func() { results <- back.Call(within(t, patience), pingCall(nil)) }
		go runCall()
	}
	answer := func(h Header, credits uint32) {
		t.Helper()
		c.call(Header{XID: h.XID, Version: 1, Credits: credits, Proc: wire.ProcMsg}, rpcAccepted(h.XID, 5))
	}
	first, body := c.reply()
	if first.Version != Version1 || first.Credits != 4 || first.Proc != wire.ProcMsg || !bytes.Equal(body[:8], xdrWords(first.XID, 0)) {
		t.Fatalf("got %+v, %x", first, body)
	}
	// A forward call under the same XID, while the backward one is outstanding:
	// its reply is no call, and comes first because no other call may be made.
	c.call(msgHeader(first.XID, wire.Lists{}), rpcCall(first.XID, procNull))
	if h, body := c.reply(); h.XID != first.XID || h.Credits != 16 || !bytes.Equal(body, rpcAccepted(first.XID)) {
		t.Fatalf("got %+v, %x", h, body)
	}
	answered := 1
	answer(first, 3)
	var under []Header
	for range 3 {
		h, _ := c.reply()
		under = append(under, h)
	}
	c.call(msgHeader(2, wire.Lists{}), rpcCall(2, procNull))
	if h, _ := c.reply(); h.XID != 2 {
		t.Fatalf("a fourth backward call under three credits: %+v", h)
	}
	for _, credits := range []uint32{1, 1, 0} { // down to one, which zero counts as
		answer(under[0], credits)
		under = under[1:]
		answered++
	}
	for answered < 20 {
		h, body := c.reply()
		if bytes.Equal(body[4:8], xdrWords(1)) {
			t.Fatalf("a reply: %+v", h)
		}
		answer(h, 1)
		answered++
	}
	for range 20 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// TestServerTakesBackwardReplies answers backward calls in ways good and bad.
func TestServerTakesBackwardReplies(t *testing.T) {
	seg := chunkOf(4)
	for _, tc := range []struct {
		name  string
		reply func(c *rawClient, h Header)
		ok    bool
	}{
		{"padded", func(c *rawClient, h Header) {
			c.call(Header{XID: h.XID, Version: 1, Credits: 1, Proc: wire.ProcMsgP, Align: 64, Threshold: 1000}, rpcAccepted(h.XID, 5))
		}, true},
		{"ERR_CHUNK", func(c *rawClient, h Header) { c.send(xdrWords(h.XID, 1, 1, 4, 2), nil) }, false},
		{"ERR_VERS", func(c *rawClient, h Header) { c.send(xdrWords(h.XID, 1, 1, 4, 1, 2, 2), nil) }, false},
		{"chunks", func(c *rawClient, h Header) {
			c.call(Header{XID: h.XID, Version: 1, Credits: 1, Proc: wire.ProcMsg, Lists: wire.Lists{Write: []wire.Chunk{seg}}}, rpcAccepted(h.XID, 5))
		}, false},
		{"results too long", func(c *rawClient, h Header) {
			c.call(Header{XID: h.XID, Version: 1, Credits: 1}, rpcAccepted(h.XID, 5, 5))
		}, false},
		{"no results", func(c *rawClient, h Header) { c.call(Header{XID: h.XID, Version: 1, Credits: 1}, rpcAccepted(h.XID)) }, false},
		{"twice", func(c *rawClient, h Header) {
			for range 2 {
				c.call(Header{XID: h.XID, Version: 1, Credits: 1}, rpcAccepted(h.XID, 5))
			}
		}, true},
		{"to another call first", func(c *rawClient, h Header) {
			c.call(Header{XID: h.XID + 1, Version: 1, Credits: 1}, rpcAccepted(h.XID+1, 6))
			c.call(Header{XID: h.XID, Version: 1, Credits: 1}, rpcAccepted(h.XID, 5))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, seen := startBack(t, ServerConfig{Backward: 2})
			c := dialRaw(t, s.addr, peerSizes(4096))
			c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procNull))
			c.reply()
			back := <-seen
			done := make(chan error, 1)
			word := uint32(0)
			runCall := func() { done <- back.Call(within(t, patience), pingCall(&word)) }
			go runCall()
			h, _ := c.reply()
			tc.reply(c, h)
			err := <-done
			if tc.ok && (err != nil || word != 5) {
				t.Errorf("%d, %v", word, err)
			}
			if !tc.ok {
				wantFate(t, err, transport.Answered, transport.ErrProtocol)
			}
			// The slot is free again, and the connection as it was.
			go runCall()
			h, _ = c.reply()
			c.call(Header{XID: h.XID, Version: 1, Credits: 1}, rpcAccepted(h.XID, 5))
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBackwardGivenUp: a slot and its credit stay taken until the late reply.
func TestBackwardGivenUp(t *testing.T) {
	s, seen := startBack(t, ServerConfig{Backward: 1})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procNull))
	c.reply()
	back := <-seen
	ctx, cancel := context.WithCancel(within(t, patience))
	done := make(chan error, 1)
	runCall := func(ctx context.Context) { done <- back.Call(ctx, pingCall(nil)) }
	go runCall(ctx)
	h, _ := c.reply()
	cancel()
	wantFate(t, <-done, transport.Unknown, context.Canceled)
	go runCall(within(t, patience))
	c.call(msgHeader(2, wire.Lists{}), rpcCall(2, procNull))
	if h, _ := c.reply(); h.XID != 2 {
		t.Fatalf("got %+v", h)
	}
	c.call(Header{XID: h.XID, Version: 1, Credits: 1}, rpcAccepted(h.XID, 5))
	next, _ := c.reply()
	if next.XID == h.XID {
		t.Error("the XID of a call given up was used again")
	}
	c.call(Header{XID: next.XID, Version: 1, Credits: 1}, rpcAccepted(next.XID, 5))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Without Backward there is none, and replies to calls never made are ignored.
func TestNoBackward(t *testing.T) {
	s, seen := startBack(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.ping(1)
	if len(seen) != 0 {
		t.Error("a backchannel where none was configured")
	}
	c.call(msgHeader(2, wire.Lists{}), rpcAccepted(2))
	c.ping(3)
	eventually(t, "reply ignored", func() bool { return s.Stats().Ignored == 1 })
}
