package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

func TestInlineCall(t *testing.T) {
	r := dialPeer(t, startPeer(t, peerSizes(4096), answerAll(42)), nil)
	if r.Terms().SendInline != 4096 || r.Terms().RecvInline != 4096 {
		t.Errorf("terms %+v", r.Terms())
	}
	for range 100 {
		var got uint32
		if err := r.do(within(t, patience), pingCall(&got)); err != nil || got != 42 {
			t.Fatalf("got %d, %v", got, err)
		}
	}
	s := r.d.Stats()
	if s.Calls != 100 || s.Replies != 100 || s.InlineCalls != 100 || s.Credits != 16 || s.Connects != 1 {
		t.Errorf("statistics %+v", s)
	}
}

func TestThresholdsWithoutPrivateData(t *testing.T) {
	r := dialPeer(t, startPeer(t, nil, answerAll(1)), func(c *DialerConfig) { c.InlineSend = 8192 })
	if r.Terms().SendInline != 1024 || r.Terms().RecvInline != 1024 {
		t.Errorf("terms %+v", r.Terms())
	}
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Error(err)
	}
}

// callOf reassembles a call from what the peer was sent, fetching its chunks.
func callOf(p *peer, q *peerCall) ([]byte, error) {
	if len(q.Lists.Read) == 0 {
		return q.body, nil
	}
	data, err := p.readAll(q.Lists.Read)
	if err != nil || q.Proc == wire.ProcNoMsg {
		return data, err
	}
	pos := int(q.Lists.Read[0].Position)
	whole := append(bytes.Clone(q.body[:pos]), data...)
	whole = append(whole, make([]byte, -len(data)&3)...)
	return append(whole, q.body[pos:]...), nil
}

// TestWrites makes calls with a payload of every kind and size, and checks that
// the peer can put the same call together each time.
func TestWrites(t *testing.T) {
	for _, inline := range []int{1024, 4096, 65536} {
		for _, noDDP := range []bool{false, true} {
			t.Run(fmt.Sprintf("inline %d, noddp %v", inline, noDDP), func(t *testing.T) { testWrites(t, inline, noDDP) })
		}
	}
}

func testWrites(t *testing.T, inline int, noDDP bool) {
	calls := make(chan []byte, 1)
	addr := startPeer(t, peerSizes(inline), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			whole, err := callOf(p, q)
			if err != nil {
				return err
			}
			calls <- whole
			reply := q.inline(7)
			if len(q.Lists.Read) == 1 {
				err = p.sendInvalidate(reply, q.Lists.Read[0].Handle)
			} else {
				err = p.send(reply)
			}
			if err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.InlineSend, c.InlineRecv, c.NoDDP = inline, inline, noDDP })
	data := testPattern(1 << 20)
	copy(r.arena.Bytes(), data)
	for _, n := range []int{0, 1, 4, 900, 1100, inline - 200, inline - 90, inline, inline + 3, 8192, 100001, 1 << 20} {
		for _, split := range []int{1, 3, 20} {
			var v mem.Vec // pieces of n bytes that do not touch, from the end of the arena on
			var want []byte
			for i := range split {
				k := n / split
				if i == 0 {
					k += n % split
				}
				seg := r.arena.Seg(i*(n/split+8), k)
				v = append(v, seg)
				want = append(want, seg.Bytes()...)
			}
			if err := r.do(within(t, patience), writeCall(v)); err != nil {
				t.Fatalf("%d bytes in %d pieces: %v", n, split, err)
			}
			whole := <-calls
			tail := whole[40:]
			if beUint32(tail) != 0xaaaa || beUint32(tail[4:]) != uint32(n) || !bytes.Equal(tail[8:8+n], want) ||
				len(tail) != 8+n+(-n&3)+4 || beUint32(tail[len(tail)-4:]) != 0xbbbb {
				t.Fatalf("%d bytes in %d pieces arrived damaged", n, split)
			}
		}
	}
	s := r.d.Stats()
	if s.InlineCalls == 0 || s.PositionZero == 0 || (s.ReadChunks == 0) != noDDP {
		t.Errorf("statistics %+v", s)
	}
	if s.LocalInvalidations == 0 || s.RemoteInvalidations == 0 {
		t.Errorf("invalidations: %d local, %d remote", s.LocalInvalidations, s.RemoteInvalidations)
	}
}

// TestReads gets payloads of every kind and size, into one piece and several.
func TestReads(t *testing.T) {
	for _, noDDP := range []bool{false, true} {
		for _, padding := range []bool{false, true} {
			t.Run(fmt.Sprintf("noddp %v, padding written %v", noDDP, padding), func(t *testing.T) { testReads(t, noDDP, padding) })
		}
	}
}

func testReads(t *testing.T, noDDP, padding bool) {
	data := testPattern(1 << 20)
	want := make(chan int, 1)
	addr := startPeer(t, peerSizes(4096), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			n := <-want
			full := append(bytes.Clone(data[:n]), make([]byte, -n&3)...)
			var l wire.Lists
			var reply []byte
			switch {
			case len(q.Lists.Write) > 0:
				placed := full
				if !padding {
					placed = full[:n]
				}
				back, err := p.write(q.Lists.Write[0], placed)
				if err != nil {
					return err
				}
				l.Write = []wire.Chunk{back}
				reply = append(q.header(wire.ProcMsg, 32, l), rpcAccepted(q.XID, uint32(n))...)
			case q.Lists.Reply != nil:
				if l.Reply, err = p.write(q.Lists.Reply, append(rpcAccepted(q.XID, uint32(n)), full...)); err != nil {
					return err
				}
				reply = q.header(wire.ProcNoMsg, 32, l)
			default:
				reply = append(q.header(wire.ProcMsg, 32, l), append(rpcAccepted(q.XID, uint32(n)), full...)...)
			}
			if err := p.send(reply); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.NoDDP = noDDP })
	for _, room := range []int{4, 100, 3000, 4093, 8192, 100003, 1 << 20} {
		for _, n := range []int{room, room - 1, room / 2, 1, 0} {
			for _, split := range []int{1, 2} {
				clear(r.arena.Bytes())
				v := mem.Vec{r.arena.Seg(64, room)}
				if split == 2 {
					v = mem.Vec{r.arena.Seg(64, room/2), r.arena.Seg(2<<20, room-room/2)}
				}
				want <- n
				got := -1
				if err := r.do(within(t, patience), readCall(v, &got)); err != nil || got != n {
					t.Fatalf("%d bytes into %d in %d pieces: got %d, %v", n, room, split, got, err)
				}
				b := make([]byte, n)
				v.CopyOut(0, b)
				if !bytes.Equal(b, data[:n]) {
					t.Fatalf("%d bytes into %d in %d pieces arrived damaged", n, room, split)
				}
				if end := r.arena.Bytes()[64+v[0].Len:][:8]; split == 1 && !bytes.Equal(end, make([]byte, 8)) {
					t.Fatalf("%d bytes into %d: bytes beyond were written", n, room)
				}
			}
		}
	}
	s := r.d.Stats()
	if (s.WriteChunks == 0) != noDDP || (s.ReplyChunks == 0) == noDDP || s.LongReplies != s.ReplyChunks {
		t.Errorf("statistics %+v", s)
	}
}

// TestLongBothWays sends a call too long for the wire by the thresholds, and
// takes a reply that is, from a responder that uses the reply chunk and from
// one that answers inline all the same.
func TestLongBothWays(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(fmt.Sprintf("answered inline: %v", inline), func(t *testing.T) { testLongBothWays(t, inline) })
	}
}

func testLongBothWays(t *testing.T, inline bool) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			whole, err := callOf(p, q)
			if err != nil {
				return err
			}
			if q.Proc != wire.ProcNoMsg || q.Lists.Reply == nil || len(whole) != 40+4*3000 {
				return fmt.Errorf("call of %d bytes, procedure %d", len(whole), q.Proc)
			}
			if inline {
				back := append(wire.Chunk{}, q.Lists.Reply...)
				back[0].Length = 0
				err = p.send(append(q.header(wire.ProcMsg, 1, wire.Lists{Reply: back}), rpcAccepted(q.XID, beUint32(whole[len(whole)-4:]))...))
			} else {
				var back wire.Chunk
				if back, err = p.write(q.Lists.Reply, rpcAccepted(q.XID, beUint32(whole[len(whole)-4:]))); err == nil {
					err = p.send(q.header(wire.ProcNoMsg, 1, wire.Lists{Reply: back}))
				}
			}
			if err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, nil)
	var got uint32
	c := pingCall(&got)
	c.ReplyMax = 30000
	c.Args = longArgs(3000)
	for range 3 {
		if err := r.do(within(t, patience), c); err != nil || got != 2999 {
			t.Fatalf("got %d, %v", got, err)
		}
	}
	if s := r.d.Stats(); s.PositionZero != 3 || s.ReplyChunks != 3 || (s.LongReplies == 0) != inline {
		t.Errorf("statistics %+v", s)
	}
}

// TestProvidesForTheVerifier: a reply may have the longest verifier there is before
// the longest results; the call provides for both.
func TestProvidesForTheVerifier(t *testing.T) {
	const words, verifier = 150, 400 / 4 // which alone, or without the verifier, would fit inline
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		reply := append([]uint32{q.XID, 1, 0, 6, 4 * verifier}, make([]uint32, verifier)...)
		reply = append(reply, 0)
		for i := range uint32(words) {
			reply = append(reply, i)
		}
		back, err := p.write(q.Lists.Reply, xdrWords(reply...))
		if err == nil {
			err = p.send(q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: back}))
		}
		return err
	})
	r := dialPeer(t, addr, nil)
	if err := r.do(within(t, patience), listCall(words)); err != nil {
		t.Error(err)
	}
}

func TestTooLargeIsNotSent(t *testing.T) {
	r := dialPeer(t, startPeer(t, peerSizes(1024), answerAll(1)), func(c *DialerConfig) { c.MaxPayload, c.LongBytes = 4096, 64<<10 })
	wantFate(t, r.do(within(t, patience), writeCall(mem.Vec{r.arena.Seg(0, 4097)})), transport.NotSent, nil)
	n := 0
	wantFate(t, r.do(within(t, patience), readCall(mem.Vec{r.arena.Seg(0, 4097)}, &n)), transport.NotSent, nil)
	c := pingCall(nil)
	c.ReplyMax = 1 << 20
	var long *tooLongError
	if err := r.do(within(t, patience), c); !errors.As(err, &long) {
		t.Errorf("got %v", err)
	}
	c = pingCall(nil)
	c.Args = longArgs(20000)
	if err := r.do(within(t, patience), c); !errors.As(err, &long) {
		t.Errorf("got %v", err)
	}
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Error(err)
	}
}

func TestUnregisteredPayloadIsNotSent(t *testing.T) {
	r := dialPeer(t, startPeer(t, peerSizes(1024), answerAll(1)), nil)
	a, err := mem.NewArena(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, v := range []mem.Vec{{a.Seg(0, 8192)}, {a.Seg(0, 900)}, {r.arena.Seg(0, 4096), a.Seg(0, 4096)}} {
		err := r.do(within(t, patience), writeCall(v))
		if v.Len() > requester.CopyInline {
			wantFate(t, err, transport.NotSent, nil)
		} else if err != nil {
			t.Error(err)
		}
	}
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Error(err)
	}
}

func TestXIDInUseIsNotSent(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	addr := startPeer(t, peerSizes(4096), func(p *peer) error {
		first, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(first.inline(1)); err != nil {
			return err
		}
		q, err := p.call()
		if err != nil {
			return err
		}
		close(arrived)
		<-release
		if err := p.send(q.inline(1)); err != nil {
			return err
		}
		return answerAll(1)(p)
	})
	r := dialPeer(t, addr, nil)
	if err := r.do(within(t, patience), pingCall(nil)); err != nil { // opens the window for more
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- r.Exchange(ctx, 77, pingCall(nil)) }()
	<-arrived
	wantFate(t, r.Exchange(within(t, patience), 77, pingCall(nil)), transport.NotSent, requester.ErrBusyXID)
	cancel()
	wantFate(t, <-done, transport.Unknown, context.Canceled)
	wantFate(t, r.Exchange(within(t, patience), 77, pingCall(nil)), transport.NotSent, requester.ErrBusyXID)
	close(release)
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	if err := r.Exchange(within(t, patience), 77, pingCall(nil)); err != nil {
		t.Error(err)
	}
}
