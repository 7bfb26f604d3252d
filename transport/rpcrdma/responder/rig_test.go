package responder

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// scriptHost is a connection without a peer: what is posted is done at once, on memory that stands for the peer's.
type scriptHost struct {
	t     testing.TB
	call  Call
	count Counters
	arena *mem.Arena
	at    int

	// peer is the peer's memory, by key.
	peer map[uint32][]byte
	// deaf: the peer serves no RDMA Reads. lost is the error of what is posted once so many RDMA Reads have been.
	deaf      bool
	lost      error
	lostAfter int
	// noMemory is the error of Lend and LendNow.
	noMemory error

	lent      map[int]int // bytes, by where they are
	awaited   bool
	ops       []verbs.Op
	rkey      uint32 // of the Send
	sent      []byte
	grants    int
	abandoned error
}

const room = 1024

// newHost makes a call on a connection whose rules are those of a server for its client, unless change changes them.
func newHost(t testing.TB, change func(*scriptHost, *Rules)) *scriptHost {
	t.Helper()
	a, err := mem.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &scriptHost{t: t, arena: a, peer: map[uint32][]byte{}, lent: map[int]int{}}
	rules := &Rules{
		Handler: program{}, Provider: "script", Peer: "peer", Versions: wire.AllVersions, Log: slog.New(slog.DiscardHandler),
		Count: &h.count, Chunks1: true, Invalidate1: true,
		MaxPull: 64 << 10, MaxReadChunks: 4, MaxLease: 64 << 10, MaxReply: 64 << 10,
		MaxSGE: 3, MaxMessage: 4096, Zeros: h.next(PadRoom),
	}
	if change != nil {
		change(h, rules)
	}
	h.call.Init(h, rules, nil, h.next(room), h.next(room))
	h.call.SetRoom(room)
	return h
}

func (h *scriptHost) next(n int) mem.Seg {
	h.at = longbuf.RoundUp(h.at+n, 64)
	return h.arena.Seg(h.at-longbuf.RoundUp(n, 64), n)
}

// carryOut carries out the call with that header and message.
func (h *scriptHost) carryOut(m wire.Msg, body []byte) {
	in := append(append([]byte(nil), wire.Encode(make([]byte, 4*room), &m)...), body...)
	at, err := h.call.Hdr.Parse(in)
	if err != nil {
		h.t.Fatal(err)
	}
	h.call.CarryOut(context.Background(), in, at)
	h.call.Release()
	if len(h.lent) > 0 {
		h.t.Errorf("memory not given back: %v", h.lent)
	}
}

func (h *scriptHost) Readable() bool { return !h.deaf }

func (h *scriptHost) Read(context.Context) error {
	if len(h.call.WRs) != 1 || h.call.WRs[0].Op != verbs.OpRead {
		h.t.Errorf("posts %v to read", h.call.WRs)
	}
	wr := h.call.WRs[0]
	if h.lost != nil && len(h.ops) == h.lostAfter {
		return h.lost
	}
	h.ops = append(h.ops, wr.Op)
	wr.Local.CopyIn(0, h.peer[wr.RKey][wr.Addr:][:wr.Local.Len()])
	h.awaited = false
	return nil
}

func (h *scriptHost) AwaitReads(context.Context) error {
	h.awaited = true
	return nil
}

func (h *scriptHost) Lend(_ context.Context, n int) (mem.Seg, error) { return h.LendNow(n) }

func (h *scriptHost) LendNow(n int) (mem.Seg, error) {
	if h.noMemory != nil || n == 0 {
		return mem.Seg{}, h.noMemory
	}
	s := h.next(n)
	h.lent[s.Off] = n
	return s, nil
}

func (h *scriptHost) TakeBack(s mem.Seg) {
	if h.lent[s.Off] != s.Len {
		h.t.Errorf("%d bytes given back, %d were lent", s.Len, h.lent[s.Off])
	}
	delete(h.lent, s.Off)
}

func (h *scriptHost) Grant() (int, error) {
	if len(h.sent) > 0 {
		h.t.Error("granted when the reply is sent")
	}
	h.grants++
	return 7, nil
}

func (h *scriptHost) Post(context.Context) error {
	if h.lost != nil {
		return h.lost
	}
	for i, wr := range h.call.WRs {
		h.ops = append(h.ops, wr.Op)
		if len(wr.Local) > 3 || wr.Op != verbs.OpSend && wr.Op != verbs.OpSendInvalidate && wr.Local.Len() > 4096 {
			h.t.Errorf("work request of %d pieces, %d bytes", len(wr.Local), wr.Local.Len())
		}
		switch wr.Op {
		case verbs.OpWrite:
			wr.Local.CopyOut(0, h.peer[wr.RKey][wr.Addr:][:wr.Local.Len()])
		case verbs.OpSend, verbs.OpSendInvalidate:
			if i != len(h.call.WRs)-1 {
				h.t.Error("a Send that is not the last request")
			}
			h.sent, h.rkey = make([]byte, wr.Local.Len()), wr.RKey
			wr.Local.CopyOut(0, h.sent)
		}
	}
	return nil
}

func (h *scriptHost) Abandon(_ context.Context, err error) { h.abandoned = err }

// offer is peer memory of those lengths as a chunk, under a key each.
func (h *scriptHost) offer(lens ...int) (c wire.Chunk) {
	for _, n := range lens {
		key := uint32(0x100 + len(h.peer))
		h.peer[key] = make([]byte, n+8)
		c = append(c, wire.Segment{Handle: key, Length: uint32(n), Offset: 8})
	}
	return c
}

// open is b in the peer's memory as read segments at pos, of those lengths.
func (h *scriptHost) open(pos int, b []byte, lens ...int) (l []wire.ReadSegment) {
	for i, s := range h.offer(lens...) {
		b = b[copy(h.peer[s.Handle][8:8+lens[i]], b):]
		l = append(l, wire.ReadSegment{Position: uint32(pos), Segment: s})
	}
	return l
}

// got is what has been written to a chunk, as its returned segments say.
func (h *scriptHost) got(c wire.Chunk) (b []byte) {
	for _, s := range c {
		b = append(b, h.peer[s.Handle][8:8+s.Length]...)
	}
	return b
}

const (
	procNull = iota
	procSum  // opaque, a word → its CRC
	procFill // n → a payload of n bytes, a word after it
	procList // n → n words
	procLose // no reply
	procFail
)

// program is the handler.
type program struct{}

func (program) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	switch q.Proc {
	case procNull:
	case procSum:
		b := q.Args.Data(1 << 20)
		if q.Args.Uint32() != 0xbbbb || q.Args.End() != nil {
			return transport.GarbageArgs
		}
		q.Reply.Uint32(crc32.ChecksumIEEE(b))
	case procFill:
		n := int(q.Args.Uint32())
		s, err := q.Lease(n)
		if err != nil {
			return transport.SystemErr
		}
		copy(s.Bytes(), pattern(n))
		q.Reply.Payload(q.AddPayload(transport.Payload{s.Slice(0, n/2), s.Slice(n/2, n-n/2)}))
		q.Reply.Uint32(0xcccc)
	case procList:
		for i := range q.Args.Uint32() {
			q.Reply.Uint32(i)
		}
	case procLose:
		return transport.NoReply
	case procFail:
		return transport.SystemErr
	}
	return transport.Success
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// rpc is a call in XID 5.
func rpc(proc uint32, args ...uint32) []byte {
	return words(append([]uint32{5, 0, 2, 100003, 3, proc, 0, 0, 0, 0}, args...)...)
}

// accepted is the reply with that status.
func accepted(stat uint32, results ...uint32) []byte {
	return words(append([]uint32{5, 1, 0, 0, 0, stat}, results...)...)
}

func wantOps(t testing.TB, got []verbs.Op, want ...verbs.Op) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("posted %v, want %v", got, want)
	}
}

// wantReply checks the message sent, and returns its header.
func (h *scriptHost) wantReply(body []byte) (m wire.Msg) {
	h.t.Helper()
	n, err := m.Parse(h.sent)
	if err != nil {
		h.t.Fatalf("sent %x: %v", h.sent, err)
	}
	if m.XID != 5 || m.Credits != 7 || h.grants != 1 {
		h.t.Errorf("header %+v, %d grants", m.Header, h.grants)
	}
	if !bytes.Equal(h.sent[n:], body) {
		h.t.Errorf("sent % x, want % x", h.sent[n:], body)
	}
	return m
}

// wantError checks that an error was sent.
func (h *scriptHost) wantError(code wire.ErrCode, fault wire.Fault) {
	h.t.Helper()
	var e wire.Error
	if _, err := e.Parse(h.sent); err != nil {
		h.t.Fatalf("sent %x: %v", h.sent, err)
	}
	if e.XID != 5 || e.Code != code || e.Fault != fault || e.Credits != 7 || h.grants != 1 {
		h.t.Errorf("sent %+v, want %d, %+v", e, code, fault)
	}
}

var errLost = errors.New("lost")
