package rpcrdma

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// fillCall asks for one payload of procFill into v.
func fillCall(v mem.Vec, n int, got *int) *transport.Call {
	return &transport.Call{Prog: 100003, Vers: 3, Proc: procFill, ReplyMax: 8, Recv: []transport.Payload{v},
		Args: func(w *xdr.Writer) { w.Uint32(uint32(n)); w.Uint32(1) },
		Result: func(r *xdr.Reader) error {
			*got = r.Payload(0)
			r.Uint32()
			return r.End()
		}}
}

func sumOf(v mem.Vec, got *[2]uint32) *transport.Call {
	return &transport.Call{Prog: 100003, Vers: 3, Proc: procSum, ReplyMax: 8, Send: []transport.Payload{v},
		Args: func(w *xdr.Writer) { w.Payload(0); w.Uint32(0xbbbb) },
		Result: func(r *xdr.Reader) error {
			got[0], got[1] = r.Uint32(), r.Uint32()
			return r.End()
		}}
}

func listCall(n int) *transport.Call {
	return &transport.Call{Prog: 100003, Vers: 3, Proc: procList, ReplyMax: 4 * n,
		Args: func(w *xdr.Writer) { w.Uint32(uint32(n)) },
		Result: func(r *xdr.Reader) error {
			for i := range n {
				if v := r.Uint32(); int(v) != i {
					return fmt.Errorf("word %d is %d", i, v)
				}
			}
			return r.End()
		}}
}

// Both halves together, in every shape that a call can take.
func TestServerAndRequester(t *testing.T) {
	for _, inline := range []int{1024, 4096, 65536} {
		for _, noDDP := range []bool{false, true} {
			t.Run(fmt.Sprintf("inline %d, noddp %v", inline, noDDP), func(t *testing.T) {
				s := startServer(t, ServerConfig{InlineIn: inline, InlineOut: inline})
				r := dialPeer(t, s.addr, func(c *DialerConfig) {
					c.InlineSend, c.InlineRecv, c.NoDDP = inline, inline, noDDP
				})
				testShapes(t, r)
				st := s.Stats()
				if st.InlineCalls == 0 || st.LongReplies == 0 || st.ReadChunks == 0 == !noDDP || st.PositionZero == 0 == noDDP ||
					st.ChunkErrors+st.VersErrors+st.Drops+st.Ignored != 0 || st.Replies != st.Calls {
					t.Errorf("statistics %+v", st)
				}
				if st.RemoteInvalidations == 0 {
					t.Error("no remote invalidation")
				}
			})
		}
	}
}

func testShapes(t *testing.T, r *rig) {
	for _, n := range []int{0, 1, 3, 4, 511, 900, 1024, 4001, 65536, 1<<20 - 1, 1 << 20} {
		want := testPattern(n)
		in := mem.Vec{r.arena.Seg(64, n/3), r.arena.Seg(64+1<<20, n-n/3)}
		in.CopyIn(0, want)
		var sum [2]uint32
		if err := r.do(within(t, patience), sumOf(in, &sum)); err != nil {
			t.Fatalf("%d bytes out: %v", n, err)
		}
		if sum != [2]uint32{uint32(n), crc32.ChecksumIEEE(want)} {
			t.Errorf("%d bytes out: %v", n, sum)
		}
		out := mem.Vec{r.arena.Seg(2<<20, n/2), r.arena.Seg(4<<20, n-n/2)}
		var got int
		if err := r.do(within(t, patience), fillCall(out, n, &got)); err != nil {
			t.Fatalf("%d bytes in: %v", n, err)
		}
		b := make([]byte, n)
		out.CopyOut(0, b)
		if got != n || !bytes.Equal(b, want) {
			t.Errorf("%d bytes in: %d", n, got)
		}
		if err := r.do(within(t, patience), listCall(min(n/4, 16<<10))); err != nil {
			t.Fatalf("%d bytes without payload in: %v", n, err)
		}
	}
}

func TestServerRequestNamesXIDAndPeer(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(77, wire.Lists{}), rpcCall(77, procSeen))
	_, body := c.reply()
	r := testXDR(body[24:])
	if xid, peer := r.Uint32(), r.String(100); xid != 77 || peer != "127.0.0.1 iwarp" || r.End() != nil {
		t.Errorf("got %d, %q", xid, peer)
	}
}

// A read chunk in many segments, and a payload into several write chunks, of
// which one is empty and one stays unused.
func TestServerManySegments(t *testing.T) {
	s := startServer(t, ServerConfig{InlineOut: 16384})
	c := dialRaw(t, s.addr, peerSizes(16384))
	want := testPattern(100_000)
	copy(c.data.Bytes(), want)
	body, pos := sumCall(5, len(want))
	var l wire.Lists
	for off := 0; off < len(want); off += 1000 {
		l.Read = append(l.Read, wire.ReadSegment{Position: pos, Segment: c.bind(c.data.Slice(off, 1000), verbs.RemoteRead)})
	}
	c.call(msgHeader(5, l), body)
	if _, got := c.reply(); !bytes.Equal(got, rpcAccepted(5, sumReply(want)...)) {
		t.Errorf("got %x", got)
	}

	clear(c.data.Bytes())
	part := func(off, n int) wire.Segment { return c.bind(c.data.Slice(off, n), verbs.RemoteWrite) }
	l = wire.Lists{Write: []wire.Chunk{{}, {part(0, 101), part(1000, 1), part(2000, 5000)}, {part(9000, 5000)}, {part(20000, 50), part(21000, 50)}}}
	c.call(msgHeader(6, l), rpcCall(6, procFill, 1001, 3))
	h, got := c.reply()
	lens := ""
	for _, w := range h.Lists.Write {
		lens += "|"
		for i := range w {
			lens += fmt.Sprint(" ", w[i].Length)
		}
	}
	if lens != "|| 101 1 899| 1001| 0 0" || h.Lists.Reply != nil || h.Proc != wire.ProcMsg {
		t.Errorf("chunks %q, %+v", lens, h)
	}
	want = testPattern(1001)
	inline := append(xdrWords(1001), append(bytes.Clone(want), make([]byte, 3)...)...)
	inline = append(rpcAccepted(6), append(inline, xdrWords(0, 1001, 1, 1001, 2)...)...)
	if !bytes.Equal(got, inline) {
		t.Errorf("reply of %d bytes", len(got))
	}
	d := c.data.Bytes()
	first := append(bytes.Clone(d[:101]), append(bytes.Clone(d[1000:1001]), d[2000:2899]...)...)
	if !bytes.Equal(first, want) || d[2899] != 0 || !bytes.Equal(d[9000:10001], want) || d[10001] != 0 || d[20000] != 0 {
		t.Error("payloads misplaced")
	}
}

// Write list and reply chunk both given, both needed.
func TestServerWriteListAndReplyChunk(t *testing.T) {
	s := startServer(t, ServerConfig{InlineOut: 1024})
	c := dialRaw(t, s.addr, peerSizes(1024))
	l := wire.Lists{
		Write: []wire.Chunk{{c.bind(c.data.Slice(0, 2000), verbs.RemoteWrite)}},
		Reply: wire.Chunk{c.bind(c.data.Slice(10000, 100), verbs.RemoteWrite), c.bind(c.data.Slice(11000, 4000), verbs.RemoteWrite)},
	}
	c.call(msgHeader(6, l), rpcCall(6, procFill, 2000, 2))
	h, body := c.reply()
	want := testPattern(2000)
	d := c.data.Bytes()
	stream := append(bytes.Clone(d[10000:10100]), d[11000:15000]...)[:24+4+4+4+2000+4]
	expect := append(rpcAccepted(6, 2000, 0, 2000), append(bytes.Clone(want), xdrWords(1)...)...)
	if h.Proc != wire.ProcNoMsg || len(body) != 0 || h.Lists.Write[0].Len() != 2000 || h.Lists.Reply.Len() != len(expect) || h.Lists.Reply[0].Length != 100 {
		t.Errorf("header %+v", h)
	}
	if !bytes.Equal(d[:2000], want) || !bytes.Equal(stream, expect) {
		t.Error("data misplaced")
	}
}

// A reply that fits goes inline although a reply chunk was offered, which comes
// back empty; whatever the payload's number of pieces.
func TestServerInlineInsteadOfReplyChunk(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	l := wire.Lists{Reply: wire.Chunk{c.bind(c.data.Slice(0, 4000), verbs.RemoteWrite)}}
	for xid, k := range []uint32{0, 1, 5, 30} {
		c.call(msgHeader(uint32(xid), l), rpcCall(uint32(xid), procFill, 21, k))
		h, body := c.reply()
		want := rpcAccepted(uint32(xid))
		for i := range k {
			want = append(want, xdrWords(21)...)
			want = append(append(want, testPattern(21)...), 0, 0, 0)
			want = append(want, xdrWords(i)...)
		}
		if h.Proc != wire.ProcMsg || h.Lists.Reply == nil || h.Lists.Reply.Len() != 0 || !bytes.Equal(body, want) {
			t.Errorf("%d payloads: %+v, %x", k, h, body)
		}
	}
}

// Send with Invalidate goes to clients that want it, when there is one key.
func TestServerRemoteInvalidation(t *testing.T) {
	s := startServer(t, ServerConfig{})
	for _, wants := range []bool{true, false} {
		c := dialRaw(t, s.addr, wire.PrivateData{RemoteInvalidate: wants, SendSize: 4096, RecvSize: 4096}.Append(nil))
		one, two := c.bind(c.data.Slice(0, 100), verbs.RemoteWrite), c.bind(c.data.Slice(200, 100), verbs.RemoteWrite)
		c.call(msgHeader(1, wire.Lists{Write: []wire.Chunk{{one, two}}}), rpcCall(1, procFill, 150, 1))
		c.reply()
		if len(c.invalidated) != 0 {
			t.Errorf("invalidated %v of two keys", c.invalidated)
		}
		c.call(msgHeader(2, wire.Lists{Write: []wire.Chunk{{one}}}), rpcCall(2, procFill, 100, 1))
		c.reply()
		if ok := len(c.invalidated) == 1 && c.invalidated[0] == one.Handle; ok != wants {
			t.Errorf("wants %v: invalidated %v", wants, c.invalidated)
		}
	}
}

// Credits: as many as asked for, at least one, at most the configured number,
// and a fair share of what all may have.
func TestServerCredits(t *testing.T) {
	s := startServer(t, ServerConfig{Credits: 32, TotalCredits: 40})
	ask := func(c *rawClient, n, want uint32) {
		t.Helper()
		h := msgHeader(n+1, wire.Lists{})
		h.Credits = n
		c.call(h, rpcCall(n+1, procNull))
		if h, _ := c.reply(); h.Credits != want {
			t.Errorf("asked for %d, got %d credits, want %d", n, h.Credits, want)
		}
	}
	c := dialRaw(t, s.addr, peerSizes(4096))
	ask(c, 0, 1)
	ask(c, 7, 7)
	ask(c, 32, 32)
	ask(c, 4_000_000_000, 32)
	d := dialRaw(t, s.addr, peerSizes(4096))
	ask(d, 100, 20)
	ask(c, 100, 20)
	ask(c, 3, 3)
	if got := s.Stats().Credits; got != 23 {
		t.Errorf("%d credits out", got)
	}
}

// As many calls at a time as there are credits, each on its own goroutine.
func TestServerConcurrency(t *testing.T) {
	s := startServer(t, ServerConfig{Credits: 16})
	r := dialPeer(t, s.addr, nil)
	if err := r.do(within(t, patience), &transport.Call{Prog: 100003, Vers: 3, Proc: procNull}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 16)
	for i := range 16 {
		runCall := func() {
			done <- r.Exchange(within(t, patience), uint32(i), &transport.Call{Prog: 100003, Vers: 3, Proc: procHold})
		}
		go runCall()
	}
	for range 16 {
		select {
		case <-s.program.holding:
		case <-within(t, patience).Done():
			t.Fatal("calls wait for each other")
		}
	}
	close(s.program.release)
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A call that is itself a chunk, with a payload in another one.
func TestServerPositionZeroAndReadChunk(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	want := testPattern(70_001)
	body, pos := sumCall(5, len(want))
	copy(c.data.Bytes(), body)
	copy(c.data.Bytes()[1000:], want)
	h := Header{XID: 5, Version: Version1, Credits: 1, Proc: wire.ProcNoMsg, Lists: wire.Lists{Read: []wire.ReadSegment{
		{Position: 0, Segment: c.bind(c.data.Slice(0, 20), verbs.RemoteRead)},
		{Position: 0, Segment: c.bind(c.data.Slice(20, len(body)-20), verbs.RemoteRead)},
		{Position: pos, Segment: c.bind(c.data.Slice(1000, 70_000), verbs.RemoteRead)},
		{Position: pos, Segment: c.bind(c.data.Slice(71_000, 1), verbs.RemoteRead)},
	}}}
	c.call(h, nil)
	if _, got := c.reply(); !bytes.Equal(got, rpcAccepted(5, sumReply(want)...)) {
		t.Errorf("got %x", got)
	}
	if st := s.Stats(); st.PositionZero != 1 || st.ReadChunks != 1 || st.Reads != 4 || st.BytesRead != uint64(len(body)+len(want)) {
		t.Errorf("statistics %+v", st)
	}
}

// A handler that gives up after it has outgrown the message still gets its
// answer out.
func TestServerFailureAfterLongResults(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(5, wire.Lists{}), rpcCall(5, procFail, 10_000))
	if _, got := c.reply(); !bytes.Equal(got, xdrWords(5, 1, 0, 0, 0, 5)) {
		t.Errorf("got %x", got)
	}
}
