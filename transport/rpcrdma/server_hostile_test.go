package rpcrdma

import (
	"bytes"
	"math"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// fullHeader is a header with every list in it.
func fullHeader(xid uint32) []byte {
	h := msgHeader(xid, wire.Lists{Read: []wire.ReadSegment{rseg(44, 8)}, Write: []wire.Chunk{chunkOf(1, 2), {}}, Reply: chunkOf(3)})
	return encodeHeader(&h)
}

// Every truncation of a header gets an error, unless there is no sendingProps whose.
func TestServerTruncatedHeaders(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	whole := fullHeader(9)
	for n := wire.FixedLen; n < len(whole); n++ {
		c.send(whole[:n], nil)
		c.wantError(9, wire.ErrChunk)
	}
	c.ping(10)
	for n := range wire.FixedLen {
		d := dialRaw(t, s.addr, peerSizes(4096))
		d.send(whole[:n], nil)
		d.wantLost()
	}
	c.ping(11)
	if st := s.Stats(); st.Drops != wire.FixedLen || st.ChunkErrors != uint64(len(whole)-wire.FixedLen) || st.Memory.Peak != 0 {
		t.Errorf("statistics %+v", st)
	}
}

func TestServerOddMessages(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))

	c.send(xdrWords(1, 3, 16, 0, 0, 0, 0), rpcCall(1, procNull))
	got, _ := c.wait(verbs.OpRecv)
	b := c.recvs[got.ID].Bytes()[:got.Len]
	if want := xdrWords(1, 3, 16, 4, 1, 1, 2); !bytes.Equal(b, want) {
		t.Errorf("answer to version 3: %x, want %x", b, want)
	}
	c.send(xdrWords(3, 1, 1, 17), nil)
	c.wantError(3, wire.ErrChunk)

	// No answer to these, and no receive lost to them.
	for range 3 * firstReceives {
		c.send(xdrWords(4, 1, 1, uint32(wire.ProcDone)), nil)
		c.ping(5)
		c.send(xdrWords(4, 1, 1, uint32(wire.ProcError), uint32(wire.ErrChunk)), nil)
		c.ping(5)
		c.send(xdrWords(4, 1, 1, uint32(wire.ProcError), 99), nil)
		c.ping(5)
		c.send(xdrWords(4, 1, 1, uint32(wire.ProcError)), nil)
		c.ping(5)
		c.send(xdrWords(4, 3, 1, uint32(wire.ProcError), uint32(wire.ErrVers), 3, 3), nil)
		c.ping(5)
		c.call(msgHeader(4, wire.Lists{}), rpcAccepted(4))
		c.ping(5)
	}

	c.call(msgHeader(6, wire.Lists{}), rpcCall(7, procNull))
	c.wantError(6, wire.ErrChunk)
	for n := range 40 {
		c.call(msgHeader(8, wire.Lists{}), rpcCall(8, procNull)[:n])
		c.wantError(8, wire.ErrChunk)
	}
	c.ping(12)
}

// Chunk lists that are refused on sight: the connection goes on, and no memory
// was leased for them.
func TestServerAbsurdChunks(t *testing.T) {
	s := startServer(t, ServerConfig{InlineIn: 16384})
	c := dialRaw(t, s.addr, peerSizes(4096))
	many := make([]wire.ReadSegment, wire.MaxReadSegments+1)
	for i := range many {
		many[i] = rseg(44, 4)
	}
	huge := make([]wire.ReadSegment, wire.MaxReadSegments)
	for i := range huge {
		huge[i] = rseg(44, math.MaxUint32)
	}
	body, _ := sumCall(3, 8)
	for name, l := range map[string]wire.Lists{
		"misaligned":               {Read: []wire.ReadSegment{rseg(45, 8)}},
		"past the end":             {Read: []wire.ReadSegment{rseg(52, 8)}},
		"overlapping":              {Read: []wire.ReadSegment{rseg(40, 100), rseg(44, 8)}},
		"descending":               {Read: []wire.ReadSegment{rseg(44, 8), rseg(40, 8)}},
		"Position Zero":            {Read: []wire.ReadSegment{rseg(0, 8)}},
		"4 GiB":                    {Read: []wire.ReadSegment{rseg(44, math.MaxUint32)}},
		"256 times 4 GiB":          {Read: huge},
		"too many segments":        {Read: many},
		"too many write chunks":    {Write: make([]wire.Chunk, wire.MaxWriteChunks+1)},
		"write chunk too long":     {Write: []wire.Chunk{make(wire.Chunk, wire.MaxChunkSegments+1)}},
		"reply chunk too long":     {Reply: make(wire.Chunk, wire.MaxChunkSegments+1)},
		"lists too long to return": {Write: []wire.Chunk{make(wire.Chunk, wire.MaxChunkSegments)}, Reply: make(wire.Chunk, wire.MaxChunkSegments)},
	} {
		t.Run(name, func(t *testing.T) {
			c.call(msgHeader(3, l), body)
			c.wantError(3, wire.ErrChunk)
		})
	}
	// A count of four thousand million, with nothing behind it.
	for _, b := range [][]byte{
		xdrWords(3, 1, 1, 0, 0, 1, math.MaxUint32, 0, 0),
		xdrWords(3, 1, 1, 0, 0, 0, 1, math.MaxUint32),
		xdrWords(3, 1, 1, 0, 2, 0, 0),
	} {
		c.send(b, body)
		c.wantError(3, wire.ErrChunk)
	}
	c.call(Header{XID: 3, Version: 1, Credits: 1, Proc: wire.ProcNoMsg}, nil)
	c.wantError(3, wire.ErrChunk)
	if st := s.Stats(); st.Memory.Peak != 0 || st.Reads != 0 {
		t.Errorf("statistics %+v", st)
	}
	c.ping(4)
}

// Chunks for items that may have none: credentials, a word, and nothing at all.
func TestServerIneligibleChunks(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	send := func(pos uint32, n int, body []byte) {
		l := wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(0, n), verbs.RemoteRead)}}}
		c.call(msgHeader(1, l), body)
	}
	send(32, 20, xdrWords(1, 0, 2, 100003, 3, procNull, 1, 20, 0, 0))
	c.wantError(1, wire.ErrChunk)
	copy(c.data.Bytes(), xdrWords(0xbbbb))
	for _, body := range [][]byte{rpcCall(1, procSum, 4, 77), rpcCall(1, procSum, 0, 0xbbbb)} {
		send(uint32(len(body)), 4, body)
		if _, got := c.reply(); !bytes.Equal(got, xdrWords(1, 1, 0, 0, 0, uint32(transport.GarbageArgs))) {
			t.Errorf("%x answered with %x", body, got)
		}
	}
	c.ping(2)
}

// Chunks that are too small for the reply, or absurdly large.
func TestServerReplyAgainstChunks(t *testing.T) {
	const limit = 8 << 20
	s := startServer(t, ServerConfig{Memory: limit, ConnMemory: limit})
	c := dialRaw(t, s.addr, peerSizes(1024))
	win := c.bind(c.data, verbs.RemoteWrite)
	of := func(lens ...uint32) (k wire.Chunk) {
		for _, n := range lens {
			k = append(k, wire.Segment{Handle: win.Handle, Length: n, Offset: win.Offset})
		}
		return k
	}
	refused := []struct {
		l    wire.Lists
		args []uint32
	}{
		{wire.Lists{}, []uint32{procFill, 2000, 1}},
		{wire.Lists{Write: []wire.Chunk{of(1999)}}, []uint32{procFill, 2000, 1}},
		{wire.Lists{Write: []wire.Chunk{{}}}, []uint32{procFill, 2000, 1}},
		{wire.Lists{Write: []wire.Chunk{of(5000)}}, []uint32{procList, 1000}},
		{wire.Lists{Reply: wire.Chunk{}}, []uint32{procList, 1000}},
		{wire.Lists{Reply: of(4023)}, []uint32{procList, 1000}},
		{wire.Lists{Reply: of(0, 0, 0)}, []uint32{procList, 1000}},
		{wire.Lists{Reply: of(2000, 23)}, []uint32{procFill, 2000, 1}},
	}
	for i, tc := range refused {
		c.call(msgHeader(1, tc.l), rpcCall(1, tc.args[0], tc.args[1:]...))
		c.wantError(1, wire.ErrChunk)
		c.ping(uint32(i))
	}
	// Chunks that claim more than there is do no harm while it is not used.
	big := of(math.MaxUint32, math.MaxUint32, math.MaxUint32)
	c.call(msgHeader(2, wire.Lists{Write: []wire.Chunk{big, big}, Reply: big}), rpcCall(2, procFill, 3000, 1))
	h, _ := c.reply()
	if h.Lists.Write[0].Len() != 3000 || h.Lists.Write[1].Len() != 0 || h.Lists.Reply.Len() != 0 ||
		!bytes.Equal(c.data.Bytes()[:3000], testPattern(3000)) {
		t.Errorf("header %+v", h)
	}
	// A handler that asks for more than a client may have is refused.
	c.call(msgHeader(3, wire.Lists{}), rpcCall(3, procFill, 1<<30, 1))
	if _, body := c.reply(); !bytes.Equal(body, xdrWords(3, 1, 0, 0, 0, 5)) {
		t.Errorf("got %x", body)
	}
}

// A key that is not there, or too short, or without the right, costs the
// connection and nothing else.
func TestServerBadKeys(t *testing.T) {
	s := startServer(t, ServerConfig{})
	other := dialRaw(t, s.addr, peerSizes(4096))
	for name, try := range map[string]func(c *rawClient){
		"read": func(c *rawClient) {
			body, pos := sumCall(1, 100)
			c.call(msgHeader(1, wire.Lists{Read: []wire.ReadSegment{rseg(pos, 100)}}), body)
		},
		"read past the end": func(c *rawClient) {
			body, pos := sumCall(1, 101)
			k := c.bind(c.data.Slice(0, 100), verbs.RemoteRead)
			k.Length++
			c.call(msgHeader(1, wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: k}}}), body)
		},
		"read without the right": func(c *rawClient) {
			body, pos := sumCall(1, 100)
			k := c.bind(c.data.Slice(0, 100), verbs.RemoteWrite)
			c.call(msgHeader(1, wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: k}}}), body)
		},
		"Position Zero": func(c *rawClient) {
			c.call(Header{XID: 1, Version: 1, Proc: wire.ProcNoMsg, Lists: wire.Lists{Read: []wire.ReadSegment{rseg(0, 100)}}}, nil)
		},
		"write": func(c *rawClient) {
			c.call(msgHeader(1, wire.Lists{Write: []wire.Chunk{chunkOf(5000)}}), rpcCall(1, procFill, 5000, 1))
		},
		"write past the end": func(c *rawClient) {
			k := c.bind(c.data.Slice(0, 4999), verbs.RemoteWrite)
			k.Length++
			c.call(msgHeader(1, wire.Lists{Write: []wire.Chunk{{k}}}), rpcCall(1, procFill, 5000, 1))
		},
		"reply": func(c *rawClient) {
			c.call(msgHeader(1, wire.Lists{Reply: chunkOf(8000)}), rpcCall(1, procList, 1500))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, s.addr, peerSizes(4096))
			c.t = t
			try(c)
			c.wantLost()
			other.ping(2)
			eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 })
		})
	}
}

// A call that its handler loses ends the connection, and gives its memory back.
func TestServerNoReply(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	k := c.bind(c.data.Slice(0, 100_000), verbs.RemoteWrite)
	c.call(msgHeader(1, wire.Lists{Write: []wire.Chunk{{k}}}), rpcCall(1, procLose))
	c.wantLost()
	eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 })
}

// More calls than credits, and than there are receives for.
func TestServerMoreCallsThanCredits(t *testing.T) {
	s := startServer(t, ServerConfig{Credits: 1})
	other := dialRaw(t, s.addr, peerSizes(4096))
	c := dialRaw(t, s.addr, peerSizes(4096))
	for i := range 1 + recvSlack + 1 {
		c.call(msgHeader(uint32(i), wire.Lists{}), rpcCall(uint32(i), procHold))
	}
	c.wantLost()
	other.ping(1)
	close(s.program.release)
	other.ping(2)
}
