package rpcrdma

import (
	"bytes"
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// procHead answers as longProgram does.
const procHead = 20

// crampedProgram is testProgram and procHead.
type crampedProgram struct{}

func (crampedProgram) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Proc == procHead {
		return longProgram{}.Serve(ctx, q)
	}
	return (&testProgram{}).Serve(ctx, q)
}

// crampedServer has room for two of the longest calls, and a client with two open
// replies, which leave 8192 bytes.
func crampedServer(t *testing.T) (*serverRig, *rawClient) {
	t.Helper()
	const longest = 64<<10 + headRoom
	s := startServerWith(t, ServerConfig{
		ReadReplies: true, InlineOut: 1024, MaxPayload: 64 << 10, Memory: 2 * longest, ConnMemory: 2 * longest,
	}, crampedProgram{})
	c := dialRaw(t, s.addr, peerSizes(1024))
	for xid, n := range []uint32{longest, longest - 8192} {
		c.call(msgHeader(uint32(xid), wire.Lists{}), rpcCall(uint32(xid), procFill, n, 1))
		if h, _ := c.reply(); len(h.Lists.Read) == 0 {
			t.Fatalf("got %+v", h)
		}
	}
	if m := s.Stats().Memory; m.Size-m.Used != 8192 {
		t.Fatalf("memory %+v", m)
	}
	return s, c
}

// TestReadReplyOfLongCallWaits has a long call take the last memory there is, and
// its long reply find none: it waits, and holds none meanwhile.
func TestReadReplyOfLongCallWaits(t *testing.T) {
	s, c := crampedServer(t)
	const xid, words = 7, 5000
	call := append(rpcCall(xid, procList, words), make([]byte, 8192-44)...)
	src := c.data.Slice(1<<20, len(call))
	copy(src.Bytes(), call)
	h := msgHeader(xid, wire.Lists{Read: []wire.ReadSegment{{Segment: c.bind(src, verbs.RemoteRead)}}})
	h.Proc = wire.ProcNoMsg
	c.call(h, nil)
	eventually(t, "the reply waits", func() bool {
		c.ping(100) // meanwhile the call is read
		return s.Stats().Memory.Waits == 1
	})
	if m := s.Stats().Memory; m.Size-m.Used != 8192 {
		t.Errorf("it holds memory meanwhile: %+v", m)
	}
	c.sendDone(0)
	got, _ := c.reply()
	if got.XID != xid || got.Proc != wire.ProcNoMsg || len(got.Lists.Read) != 1 {
		t.Fatalf("got %+v", got)
	}
	want := make([]uint32, words)
	for i := range want {
		want[i] = uint32(i)
	}
	if !bytes.Equal(c.read(got.Lists.Read[0].Segment), rpcAccepted(xid, want...)) {
		t.Error("wrong reply")
	}
	c.sendDone(1)
	c.sendDone(xid)
	eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 })
}

// TestReadReplyWithoutMemory has a reply hold the last memory there is with its
// payload, and find none for its head: it is refused, and the connection goes on.
func TestReadReplyWithoutMemory(t *testing.T) {
	s, c := crampedServer(t)
	c.call(msgHeader(7, wire.Lists{}), rpcCall(7, procHead, 8192))
	c.wantError(7, wire.ErrChunk)
	eventually(t, "its memory back", func() bool {
		m := s.Stats().Memory
		return m.Size-m.Used == 8192
	})
	c.ping(8)
	for xid := range uint32(2) {
		c.sendDone(xid)
	}
	eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 })
}

// TestReadReplyWithoutWindows has a connection that makes one window and no more:
// replies that need two are refused, others use it over and over.
func TestReadReplyWithoutWindows(t *testing.T) {
	sent := make(chan Header, 8)
	s, conn := scriptServer(t, new(listenDevice), newTestProgram(), ServerConfig{InlineOut: 1024, ReadReplies: true, Credits: 2}, func(wr *verbs.SendWR) {
		if wr.Op != verbs.OpSend {
			return
		}
		b := make([]byte, wr.Local.Len())
		wr.Local.CopyOut(0, b)
		var h Header
		if _, err := ParseHeader(b, &h); err != nil {
			t.Error(err)
		}
		sent <- h
	})
	next := func() Header {
		t.Helper()
		select {
		case h := <-sent:
			return h
		case <-within(t, patience).Done():
			t.Fatal("no answer")
			return Header{}
		}
	}
	conn.mu.Lock()
	conn.windows = 1
	conn.mu.Unlock()
	for xid := range uint32(6) { // more often than replies may be open
		h := msgHeader(xid, wire.Lists{})
		conn.deliver(append(encodeHeader(&h), rpcCall(xid, procFill, 5000, 1)...), 0)
		if h := next(); h.Proc != wire.ProcError || h.Err != wire.ErrChunk || h.XID != xid {
			t.Errorf("got %+v", h)
		}
		conn.deliver(append(encodeHeader(&h), rpcCall(xid, procList, 1000)...), 0)
		if h := next(); h.Proc != wire.ProcNoMsg || len(h.Lists.Read) != 1 {
			t.Fatalf("got %+v", h)
		}
		conn.deliver(xdrWords(xid, 1, 16, uint32(wire.ProcDone)), 0)
		eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 })
	}
}
