package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// mirror returns every payload of a call inverted, a word after each, and takes
// plain words in front of them.
type mirror struct{}

func (mirror) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	words, items := q.Args.Count(10_000), 0
	for range words {
		q.Args.Uint32()
	}
	for items = q.Args.Count(8); items > 0; items-- {
		d := q.Args.Data(1 << 20)
		s, err := q.Lease(len(d))
		if err != nil || q.Args.Uint32() != uint32(len(d)) {
			return transport.SystemErr
		}
		for i, c := range d {
			s.Bytes()[i] = ^c
		}
		q.Reply.Payload(q.AddPayload(transport.Payload{s}))
		q.Reply.Uint32(^uint32(len(d)))
	}
	if q.Args.End() != nil {
		return transport.GarbageArgs
	}
	return transport.Success
}

func mirrorCall(words int, out, in []mem.Vec, got []int) *transport.Call {
	return &transport.Call{Prog: 1, Vers: 1, Proc: 1, Send: out, Recv: in, ReplyMax: 8 * len(in),
		Args: func(w *xdr.Writer) {
			w.Uint32(uint32(words))
			for range words {
				w.Uint32(7)
			}
			w.Uint32(uint32(len(out)))
			for i, v := range out {
				w.Payload(i)
				w.Uint32(uint32(v.Len()))
			}
		},
		Result: func(r *xdr.Reader) error {
			for i := range in {
				got[i] = r.Payload(i)
				if n := r.Uint32(); ^n != uint32(got[i]) {
					r.Fail("item of %d bytes followed by %d", got[i], ^n)
				}
			}
			return r.End()
		}}
}

// TestSeveralChunks has both halves move several payloads each way: in chunks
// of several segments, with room to spare and without, beside empty ones, and
// in calls short and long.
func TestSeveralChunks(t *testing.T) {
	for _, c := range []struct {
		name       string
		lens, room []int
		words      int
		call       plan.CallWay
		reply      plan.ReplyWay
	}{
		{"two", []int{5000, 6000}, []int{5000, 6000}, 0, plan.CallReadChunk, plan.ReplyWriteList},
		{"four, ragged", []int{5001, 6002, 7003, 1}, []int{5001, 6002, 7003, 1}, 0, plan.CallReadChunk, plan.ReplyWriteList},
		{"partly filled", []int{5001, 10, 300}, []int{9000, 9001, 9002}, 0, plan.CallReadChunk, plan.ReplyWriteList},
		{"empty ones between", []int{0, 5000, 0, 6001}, []int{0, 5000, 0, 6001}, 0, plan.CallReadChunk, plan.ReplyWriteList},
		{"nothing for the room", []int{0, 5000, 0}, []int{4000, 5000, 4000}, 0, plan.CallReadChunk, plan.ReplyWriteList},
		{"long call", []int{5001, 6000}, []int{5001, 6000}, 1000, plan.CallPositionZero, plan.ReplyWriteList},
		{"five", []int{1000, 1001, 1002, 1003, 1004}, []int{1000, 1001, 1002, 1003, 1004}, 0, plan.CallReadChunk, plan.ReplyChunk},
		{"long call of five", []int{1000, 1001, 1002, 1003, 1004}, []int{1000, 1001, 1002, 1003, 1004}, 1000, plan.CallPositionZero, plan.ReplyChunk},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServerWith(t, ServerConfig{InlineIn: 1024, InlineOut: 1024}, mirror{})
			r := dialPeer(t, s.addr, func(c *DialerConfig) { c.InlineSend, c.InlineRecv = 1024, 1024 })
			at := 0
			vec := func(n, parts int) (v mem.Vec) {
				for i := range parts {
					k := n / parts
					if i == parts-1 {
						k = n - k*(parts-1)
					}
					v = append(v, r.arena.Seg(at, k))
					at += k + 13
				}
				return v
			}
			var out, in []mem.Vec
			for i, n := range c.lens {
				v := vec(n, 1+i%3)
				v.CopyIn(0, testPattern(n))
				out = append(out, v)
				in = append(in, vec(c.room[i], 3-i%3))
			}
			got := make([]int, len(in))
			if err := r.do(within(t, patience), mirrorCall(c.words, out, in, got)); err != nil {
				t.Fatal(err)
			}
			for i, n := range c.lens {
				b := make([]byte, n)
				in[i].CopyOut(0, b)
				for j := range b {
					b[j] = ^b[j]
				}
				if got[i] != n || !bytes.Equal(b, testPattern(n)) {
					t.Errorf("payload %d: %d bytes, want %d", i, got[i], n)
				}
			}
			// Its only call, by what is counted.
			st := r.d.Stats()
			calls := map[plan.CallWay]uint64{plan.CallInline: st.InlineCalls, plan.CallReadChunk: st.ReadChunks, plan.CallPositionZero: st.PositionZero}
			replies := map[plan.ReplyWay]uint64{plan.ReplyWriteList: st.WriteChunks, plan.ReplyChunk: st.ReplyChunks}
			if st.Calls != 1 || calls[c.call] != 1 || replies[c.reply] != 1 {
				t.Errorf("calls %v, replies %v", calls, replies)
			}
		})
	}
}

// TestReadChunkBesidePieces has a call of which one payload goes by read chunk, and
// another, in more pieces than a Send can gather, inline.
func TestReadChunkBesidePieces(t *testing.T) {
	s := startServerWith(t, ServerConfig{}, mirror{})
	r := dialPeer(t, s.addr, nil)
	var small mem.Vec
	for i := range r.d.cfg.Device.Caps().MaxSGE + 1 {
		small = append(small, r.arena.Seg(1<<20+100*i, 50))
	}
	out := []mem.Vec{{r.arena.Seg(0, 100_001)}, small}
	in := []mem.Vec{{r.arena.Seg(2<<20, 100_001)}, {r.arena.Seg(3<<20, small.Len())}}
	for _, v := range out {
		v.CopyIn(0, testPattern(v.Len()))
	}
	got := make([]int, 2)
	if err := r.do(within(t, patience), mirrorCall(0, out, in, got)); err != nil {
		t.Fatal(err)
	}
	for i, v := range in {
		b := bytes.Clone(v[0].Bytes())
		for j := range b {
			b[j] = ^b[j]
		}
		if got[i] != v.Len() || !bytes.Equal(b, testPattern(v.Len())) {
			t.Errorf("payload %d: %d bytes, want %d", i, got[i], v.Len())
		}
	}
	if st := r.d.Stats(); st.ReadChunks != 1 || st.PositionZero != 0 {
		t.Errorf("statistics %+v", st)
	}
}

// TestWriteListUses answers a call of several write chunks in every way that
// the rules allow, and in some that they do not.
func TestWriteListUses(t *testing.T) {
	lens := func(c wire.Chunk, n ...uint32) wire.Chunk {
		c = append(wire.Chunk{}, c...)
		for i := range c {
			c[i].Length = 0
			if i < len(n) {
				c[i].Length = n[i]
			}
		}
		return c
	}
	type items [3]int
	for _, c := range []struct {
		name  string
		lists func(w []wire.Chunk) wire.Lists
		words []uint32 // the results, in which bytes that are inline stand for themselves
		want  items
		ok    bool
		room  int // for the second item
	}{
		{"all full", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 2500, 2501), lens(w[1]), lens(w[2], 3000)}}
		},
			[]uint32{5001, 0, 3000}, items{5001, 0, 3000}, true, 0},
		{"padding counted", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 2500, 2501, 3), lens(w[1]), lens(w[2], 3000)}}
		}, []uint32{5001, 0, 3000}, items{5001, 0, 3000}, true, 0},
		{"partly filled", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 100), lens(w[1]), lens(w[2], 8)}}
		},
			[]uint32{100, 0, 8}, items{100, 0, 8}, true, 0},
		{"one segment and a bit", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 2500, 1), lens(w[1]), lens(w[2], 1)}}
		}, []uint32{2501, 0, 1}, items{2501, 0, 1}, true, 0},
		{"the first unused", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0]), lens(w[1]), lens(w[2], 3000)}}
		},
			[]uint32{0, 0, 3000}, items{0, 0, 3000}, true, 0},
		{"the first unused, its data inline", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0]), lens(w[1]), lens(w[2], 3000)}}
		}, []uint32{4, 0x01020304, 0, 3000}, items{4, 0, 3000}, true, 0},
		{"all unused", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0]), lens(w[1]), lens(w[2])}}
		},
			[]uint32{0, 0, 0}, items{}, true, 0},
		{"no list", func(w []wire.Chunk) wire.Lists { return wire.Lists{} }, []uint32{0, 8, 1, 2, 0}, items{0, 8, 0}, true, 8},
		{"a chunk too few", func(w []wire.Chunk) wire.Lists { return wire.Lists{Write: []wire.Chunk{lens(w[0], 8), lens(w[1])}} }, []uint32{8, 0, 0}, items{}, false, 0},
		{"a chunk too many", func(w []wire.Chunk) wire.Lists { return wire.Lists{Write: []wire.Chunk{w[0], w[1], w[2], w[1]}} }, []uint32{5001, 0, 3000}, items{}, false, 0},
		{"segments in the empty one", func(w []wire.Chunk) wire.Lists { return wire.Lists{Write: []wire.Chunk{w[0], w[2], w[2]}} }, []uint32{5001, 0, 3000}, items{}, false, 0},
		{"in the wrong order", func(w []wire.Chunk) wire.Lists { return wire.Lists{Write: []wire.Chunk{w[2], w[1], w[0]}} }, []uint32{3000, 0, 5001}, items{}, false, 0},
		{"data in the wrong chunk", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 8), lens(w[1]), lens(w[2])}}
		}, []uint32{0, 8, 1, 2, 0}, items{}, false, 8},
		{"a hole", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 0, 100), lens(w[1]), lens(w[2])}}
		}, []uint32{100, 0, 0}, items{}, false, 0},
		{"a byte less than said", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 100), lens(w[1]), lens(w[2], 7)}}
		}, []uint32{100, 0, 8}, items{}, false, 0},
		{"a byte more than said", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 100), lens(w[1]), lens(w[2], 9)}}
		}, []uint32{100, 0, 8}, items{}, false, 0},
		{"a word more than said", func(w []wire.Chunk) wire.Lists {
			return wire.Lists{Write: []wire.Chunk{lens(w[0], 105), lens(w[1]), lens(w[2], 8)}}
		}, []uint32{101, 0, 8}, items{}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := dialPeer(t, startPeer(t, peerSizes(1024), answersFirst(func(q *peerCall) []byte {
				return append(q.header(wire.ProcMsg, 16, c.lists(q.Lists.Write)), rpcAccepted(q.XID, c.words...)...)
			})), nil)
			var got items
			call := &transport.Call{Prog: 1, Vers: 1, Proc: 1, ReplyMax: 12,
				Recv: []transport.Payload{{r.arena.Seg(0, 2500), r.arena.Seg(3000, 2501)}, {r.arena.Seg(6000, 0)}, {r.arena.Seg(8000, 3000)}},
				Result: func(x *xdr.Reader) error {
					for i := range got {
						got[i] = x.Payload(i)
					}
					return x.End()
				}}
			if c.room > 0 {
				call.Recv[1] = transport.Payload{r.arena.Seg(6000, c.room)}
			}
			err := r.do(within(t, patience), call)
			if c.ok && (err != nil || got != c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
			if !c.ok {
				wantFate(t, err, transport.Answered, transport.ErrProtocol)
			}
			wantAlive(t, r)
		})
	}
}

// TestReadChunkRoundup sends an item of each remainder in each way that its
// roundup can travel, in the middle of a call and at its end, short and long;
// then with lengths that are wrong, which RFC 8166 section 4.5.2 has answered
// with GARBAGE_ARGS.
func TestReadChunkRoundup(t *testing.T) {
	s := startServerWith(t, ServerConfig{}, tailProgram{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	ways := map[string]func(pos uint32, n, pad int) []wire.ReadSegment{
		"without": func(pos uint32, n, pad int) []wire.ReadSegment {
			return []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(1000, n), verbs.RemoteRead)}}
		},
		"in the segment": func(pos uint32, n, pad int) []wire.ReadSegment {
			return []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(1000, n+pad), verbs.RemoteRead)}}
		},
		"in a segment of its own": func(pos uint32, n, pad int) []wire.ReadSegment {
			return []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(1000, n), verbs.RemoteRead)}, {Position: pos, Segment: c.bind(c.data.Slice(0, pad), verbs.RemoteRead)}}
		},
		"in a chunk of its own": func(pos uint32, n, pad int) []wire.ReadSegment {
			return []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(1000, n), verbs.RemoteRead)}, {Position: pos + uint32(n), Segment: c.bind(c.data.Slice(0, pad), verbs.RemoteRead)}}
		},
		"segments of odd lengths": func(pos uint32, n, pad int) []wire.ReadSegment {
			return []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(1000, 1), verbs.RemoteRead)}, {Position: pos, Segment: c.bind(c.data.Slice(1001, n-1), verbs.RemoteRead)}}
		},
		"one byte short": func(pos uint32, n, pad int) []wire.ReadSegment {
			return []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(1000, n-1), verbs.RemoteRead)}}
		},
		"too much of it": func(pos uint32, n, pad int) []wire.ReadSegment {
			return []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(1000, n+pad+1), verbs.RemoteRead)}}
		},
	}
	xid := uint32(100)
	for name, way := range ways {
		wrong := name == "one byte short" || name == "too much of it"
		for n := 5001; n <= 5004; n++ {
			for _, tail := range []uint32{0, 1} {
				for _, long := range []bool{false, true} {
					if pad := xdr.Pad(n); pad == 0 && (name == "in a segment of its own" || name == "in a chunk of its own") {
						continue
					}
					xid++
					want := testPattern(n)
					clear(c.data.Bytes()[:8000])
					copy(c.data.Bytes()[1000:], want)
					body := rpcCall(xid, tail, uint32(n))
					pos := uint32(len(body))
					if tail == 1 {
						body = append(body, xdrWords(0xbbbb)...)
					}
					h := msgHeader(xid, wire.Lists{Read: way(pos, n, xdr.Pad(n))})
					if long {
						copy(c.data.Bytes()[20000:], body)
						p0 := wire.ReadSegment{Position: 0, Segment: c.bind(c.data.Slice(20000, len(body)), verbs.RemoteRead)}
						h.Proc, h.Lists.Read, body = wire.ProcNoMsg, append([]wire.ReadSegment{p0}, h.Lists.Read...), nil
					}
					c.call(h, body)
					expect := rpcAccepted(xid, sumReply(want)...)
					if wrong {
						expect = xdrWords(xid, 1, 0, 0, 0, uint32(transport.GarbageArgs))
					}
					if _, got := c.reply(); !bytes.Equal(got, expect) {
						t.Errorf("%s, %d bytes, tail %d, long %v: %x, want %x", name, n, tail, long, got, expect)
					}
				}
			}
		}
	}
}

// tailProgram takes an opaque item, and with procedure 1 a word behind it.
type tailProgram struct{}

func (tailProgram) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	d := q.Args.Data(1 << 20)
	if q.Proc == 1 && q.Args.Uint32() != 0xbbbb || q.Args.End() != nil {
		return transport.GarbageArgs
	}
	for _, w := range sumReply(d) {
		q.Reply.Uint32(w)
	}
	return transport.Success
}

// TestReplyRoundup has replies in write chunks count the roundup and not, and
// long replies end with it, for each remainder.
func TestReplyRoundup(t *testing.T) {
	for n := 5001; n <= 5004; n++ {
		for more, ok := range map[int]bool{0: true, xdr.Pad(n): true, -1: false, xdr.Pad(n) + 1: false} {
			t.Run(fmt.Sprint(n, more), func(t *testing.T) {
				r := dialPeer(t, startPeer(t, peerSizes(1024), answersFirst(func(q *peerCall) []byte {
					back := append(wire.Chunk{}, q.Lists.Write[0]...)
					back.Fill(n + more)
					return append(q.header(wire.ProcMsg, 16, wire.Lists{Write: []wire.Chunk{back}}), rpcAccepted(q.XID, uint32(n))...)
				})), nil)
				got := 0
				err := r.do(within(t, patience), readCall(mem.Vec{r.arena.Seg(0, 6000)}, &got))
				var te *transport.Error
				switch {
				case ok && (err != nil || got != n):
					t.Errorf("%d, %v", got, err)
				case !ok && (!errors.As(err, &te) || te.Fate != transport.Answered || !errors.Is(err, transport.ErrProtocol)):
					t.Errorf("accepted: %d, %v", got, err)
				}
			})
		}
	}
}
