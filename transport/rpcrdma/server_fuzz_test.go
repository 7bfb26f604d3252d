package rpcrdma

import (
	"bytes"
	"context"
	"math"
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/responder"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// sinkDevice and sinkConn stand in for a provider, one call at a time: they
// carry out each request at once, on a client's memory that is all holes, and
// check that the responder keeps to what the client offered.
type sinkDevice struct{ verbs.Device }

func (sinkDevice) Caps() verbs.Caps {
	return verbs.Caps{Provider: "sink", MaxSGE: 4, MaxQueue: 256, MaxMessage: 100_000, MaxReadDepth: 4}
}

type sinkRegion struct{}

func (sinkRegion) Close() error { return nil }

func (sinkDevice) Register(*mem.Arena) (verbs.MemoryRegion, error) { return sinkRegion{}, nil }

type sinkRequest struct{ verbs.Request }

func (sinkRequest) RemoteAddr() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.1:1023") }

func (sinkRequest) PrivateData() []byte {
	return wire.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 2048}.Append(nil)
}

type sinkConn struct {
	verbs.Conn
	t       testing.TB
	c       *serverConn
	ctx     context.Context
	call    wire.Lists // what the client offered
	sent    []byte
	control [][]byte // messages about properties
	posted  int
	sends   int
	written int
	closed  bool
}

func (f *sinkConn) PostRecv(wr []verbs.RecvWR) (int, error) {
	f.posted += len(wr)
	return len(wr), nil
}

func (f *sinkConn) Close() error {
	f.closed = true
	return nil
}

func (f *sinkConn) RemoteAddr() netip.AddrPort { return sinkRequest{}.RemoteAddr() }

func (f *sinkConn) PostSend(wrs []verbs.SendWR) (int, error) {
	if len(wrs) > groupWRs {
		f.t.Errorf("%d work requests in a group", len(wrs))
	}
	for _, wr := range wrs {
		caps := sinkDevice{}.Caps()
		if n := wr.Local.Len(); len(wr.Local) > caps.MaxSGE || n > caps.MaxMessage || n == 0 {
			f.t.Errorf("work request %d of %d bytes in %d pieces", wr.Op, n, len(wr.Local))
		}
		for _, s := range wr.Local {
			if s.Arena != f.c.arena && s.Arena != f.c.s.pool.Arena {
				f.t.Error("memory that is not registered")
			}
			_ = s.Bytes()
		}
		switch wr.Op {
		case verbs.OpRead:
			f.offered(wr, f.call.Read, nil)
			clear(wr.Local[0].Bytes())
		case verbs.OpWrite:
			f.offered(wr, nil, append(append([]wire.Chunk{}, f.call.Write...), f.call.Reply))
			f.written += wr.Local.Len()
		default:
			b := make([]byte, wr.Local.Len())
			wr.Local.CopyOut(0, b)
			if aboutProps(b) {
				f.control = append(f.control, b)
			} else if f.sent = b; f.sends > 0 {
				f.t.Error("answered twice")
			} else {
				f.sends++
			}
		}
		if wr.Signaled {
			f.c.completed(verbs.Completion{ID: wr.ID, Op: wr.Op})
		}
	}
	return len(wrs), nil
}

func (f *sinkConn) PostAndReap(wrs []verbs.SendWR, _ []verbs.Completion) (posted, reaped int, err error) {
	posted, err = f.PostSend(wrs)
	return posted, 0, err
}

// offered checks that wr stays inside a segment that the client named.
func (f *sinkConn) offered(wr verbs.SendWR, reads []wire.ReadSegment, writes []wire.Chunk) {
	in := func(s wire.Segment) bool {
		return s.Handle == wr.RKey && wr.Addr-s.Offset <= uint64(s.Length) &&
			uint64(wr.Local.Len()) <= uint64(s.Length)-(wr.Addr-s.Offset)
	}
	for _, s := range reads {
		if in(s.Segment) {
			return
		}
	}
	for _, w := range writes {
		for _, s := range w {
			if in(s) {
				return
			}
		}
	}
	f.t.Errorf("request %d at %#x+%d of key %#x was not offered", wr.Op, wr.Addr, wr.Local.Len(), wr.RKey)
}

// fuzzProgram makes its reply out of the call's arguments: payloads and words,
// within what a client may have.
type fuzzProgram struct{}

func (fuzzProgram) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	q.Args.Data(1 << 20)
	n, k, words := int(q.Args.Uint32())%(2<<20), int(q.Args.Uint32())%responder.MaxPayloads, int(q.Args.Uint32())%(1<<18)
	for range k {
		s, err := q.Lease(n)
		if err != nil {
			return transport.SystemErr
		}
		q.Reply.Payload(q.AddPayload(transport.Payload{s.Slice(0, n/3), s.Slice(n/3, n-n/3)}))
	}
	for i := range words {
		q.Reply.Uint32(uint32(i))
	}
	return transport.Success
}

// FuzzServerMessage gives the responder one message and checks everything that
// it does: that it stays within its bounds and the client's, that it answers
// once or not at all, that what it sends can be read, and that it has given
// back all memory in the end.
func FuzzServerMessage(f *testing.F) {
	for _, g := range goldenCalls(f) {
		f.Add(append(encodeHeader(&g.call), g.body...))
	}
	f.Add(fullHeader(1))
	f.Add([]byte{0, 0, 0})
	f.Add(xdrWords(1, 1, 1, uint32(wire.ProcDone)))
	f.Add(xdrWords(1, 3, 1, 0, 0, 0, 0))
	for _, b := range recorded(f, "v2_vectors.txt", 1) {
		f.Add(b)
	}
	for _, l := range []wire.Lists{
		{},
		{Write: []wire.Chunk{chunkOf(1000, 3000), {}, chunkOf(9000)}},
		{Write: []wire.Chunk{chunkOf(math.MaxUint32)}, Reply: chunkOf(5, 50000)},
		{Reply: chunkOf(300_000, 900_000)},
		{Read: []wire.ReadSegment{rseg(44, 5000), rseg(44, 3)}, Reply: chunkOf(math.MaxUint32, math.MaxUint32)},
	} {
		for _, args := range [][]uint32{{0, 100, 1, 10}, {0, 3001, 3, 5}, {0, 21, 12, 3}, {0, 100_000, 2, 0}, {0, 1, 1, 100_000}, {5003, 7, 1, 7}} {
			for _, h := range []Header{msgHeader(1, l), msgHeader2(1, l)} {
				f.Add(append(encodeHeader(&h), rpcCall(1, 1, args...)...))
			}
		}
	}
	s, err := NewServer(sinkDevice{}, fuzzProgram{}, ServerConfig{InlineIn: 8192, Credits: 4, Memory: 16 << 20, ConnMemory: 4 << 20})
	if err != nil {
		f.Fatal(err)
	}
	c := newServerConn(s, sinkRequest{})
	if err := c.makeBuffers(); err != nil {
		f.Fatal(err)
	}
	c.reads = make(chan struct{}, s.cfg.ReadDepth)
	c.readable.Store(true)
	f.Fuzz(func(t *testing.T, msg []byte) {
		msg = msg[:min(len(msg), s.cfg.InlineIn)]
		var h Header
		_, headErr := ParseHeader(msg, &h)
		var keep wire.Lists
		keep.Read = append(keep.Read, h.Lists.Read...)
		for _, w := range h.Lists.Write {
			keep.Write = append(keep.Write, append(wire.Chunk{}, w...))
		}
		keep.Reply = append(keep.Reply, h.Lists.Reply...)
		conn := &sinkConn{t: t, c: c, ctx: t.Context(), call: keep}
		c.conn, c.cause = conn, nil
		c.props = newProps(c.receives(), s.cfg.receiveSize(), s.cfg.InlineOut, wire.BackwardNone)
		c.props.post(0)
		copy(c.recvBuf(0).Bytes(), msg)
		k := <-c.free
		c.posted = 1
		c.learn(verbs.Completion{ID: 0, Op: verbs.OpRecv, Len: len(msg)})
		k.run(t.Context(), arrival{0, len(msg)})
		if k.abandoned {
			if !conn.closed {
				t.Error("abandoned, and the connection lives")
			}
			k.Release()
			k.abandoned = false
			c.free <- k
		} else if conn.posted == 0 {
			t.Error("receive buffer not posted again")
		}
		if len(c.free) != cap(c.free) || len(c.reads) != 0 || len(c.sends) != 0 || c.busy.Load() != 0 {
			t.Errorf("%d calls free, %d reads and %d sends out", len(c.free), len(c.reads), len(c.sends))
		}
		used, peak := s.pool.Usage(&c.acct)
		if st := s.pool.Stats(); st.Used != 0 || used != 0 || peak > c.acct.Limit {
			t.Errorf("memory %+v, %d used, %d at most", st, used, peak)
		}
		if conn.sent != nil {
			checkReply(t, conn, msg, headErr)
		}
		for _, b := range conn.control {
			if _, err := ParseHeader(b, &h); err != nil || len(b) > maxCtl {
				t.Errorf("%d bytes about properties: %v", len(b), err)
			}
		}
	})
}

func checkReply(t *testing.T, f *sinkConn, msg []byte, headErr error) {
	var r Header
	n, err := ParseHeader(f.sent, &r)
	limit := 2048
	if r.Version == Version2 {
		limit = f.c.props.sendLimit()
	}
	if len(f.sent) > limit || !bytes.Equal(f.sent[:8], msg[:8]) || r.Credits == 0 && headErr == nil {
		t.Fatalf("sent %x", f.sent)
	}
	if r.Proc == wire.ProcError || err != nil {
		// ErrVers is in the peer's version, which we cannot parse.
		if len(f.sent) > 28 || f.written != 0 {
			t.Errorf("error of %d bytes after %d were written", len(f.sent), f.written)
		}
		return
	}
	back := 0
	fits := func(got, offered wire.Chunk) {
		if len(got) != len(offered) {
			t.Fatalf("chunk of %d segments comes back with %d", len(offered), len(got))
		}
		for i := range got {
			if got[i].Length > offered[i].Length || got[i].Handle != offered[i].Handle || got[i].Offset != offered[i].Offset {
				t.Fatalf("segment %+v comes back as %+v", offered[i], got[i])
			}
			back += int(got[i].Length)
		}
	}
	if len(r.Lists.Write) != len(f.call.Write) || len(r.Lists.Read) != 0 {
		t.Fatalf("header %+v", r)
	}
	for i, w := range r.Lists.Write {
		fits(w, f.call.Write[i])
	}
	fits(r.Lists.Reply, f.call.Reply)
	if back != f.written || r.Proc == wire.ProcNoMsg && len(f.sent) != n || r.Proc == wire.ProcMsg && len(f.sent) < n+20 {
		t.Errorf("%d bytes written, %d returned; %v with %d bytes inline", f.written, back, r.Proc, len(f.sent)-n)
	}
}
