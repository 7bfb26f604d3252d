package plan

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// rseg is a read segment at a position.
func rseg(pos, n uint32) wire.ReadSegment {
	return wire.ReadSegment{Position: pos, Segment: wire.Segment{Handle: 7, Length: n, Offset: 0x1000}}
}

func chunkOf(lens ...uint32) wire.Chunk {
	c := wire.Chunk{}
	for i, n := range lens {
		c = append(c, wire.Segment{Handle: uint32(i), Length: n, Offset: uint64(i) << 32})
	}
	return c
}

func TestPlanPull(t *testing.T) {
	const limit = 1 << 20
	tests := []struct {
		name   string
		proc   wire.Proc
		inline int
		list   []wire.ReadSegment
		want   []Pulled
		total  int
	}{
		{"nothing", wire.ProcMsg, 100, nil, nil, 0},
		{"one", wire.ProcMsg, 100, []wire.ReadSegment{rseg(100, 8192)}, []Pulled{{100, 0, 1, 0, 8192}}, 8192},
		{"one in the middle", wire.ProcMsg, 100, []wire.ReadSegment{rseg(40, 5)}, []Pulled{{40, 0, 1, 0, 5}}, 5},
		{"segments of one chunk", wire.ProcMsg, 100, []wire.ReadSegment{rseg(100, 4095), rseg(100, 4096), rseg(100, 1)},
			[]Pulled{{100, 0, 3, 0, 8192}}, 8192},
		{"two", wire.ProcMsg, 100, []wire.ReadSegment{rseg(60, 10), rseg(76, 20)},
			[]Pulled{{60, 0, 1, 0, 10}, {76, 1, 2, 64, 20}}, 84},
		{"second after the first's end", wire.ProcMsg, 100, []wire.ReadSegment{rseg(60, 10), rseg(112, 20)},
			[]Pulled{{60, 0, 1, 0, 10}, {112, 1, 2, 64, 20}}, 84},
		{"padding sent along", wire.ProcMsg, 100, []wire.ReadSegment{rseg(60, 10), rseg(60, 2), rseg(76, 4)},
			[]Pulled{{60, 0, 2, 0, 12}, {76, 2, 3, 64, 4}}, 68},
		{"padding as a chunk of its own", wire.ProcMsg, 100, []wire.ReadSegment{rseg(60, 10), rseg(70, 2), rseg(76, 4)},
			[]Pulled{{60, 0, 2, 0, 12}, {76, 2, 3, 64, 4}}, 68},
		{"empty", wire.ProcMsg, 100, []wire.ReadSegment{rseg(60, 0)}, []Pulled{{60, 0, 1, 0, 0}}, 0},
		{"Position Zero", wire.ProcNoMsg, 0, []wire.ReadSegment{rseg(0, 3000)}, []Pulled{{0, 0, 1, 0, 3000}}, 3000},
		{"Position Zero and another", wire.ProcNoMsg, 0, []wire.ReadSegment{rseg(0, 2000), rseg(0, 2000), rseg(4000, 100)},
			[]Pulled{{0, 0, 2, 0, 4000}, {4000, 2, 3, 4032, 100}}, 4132},
		{"as much as allowed", wire.ProcMsg, 100, []wire.ReadSegment{rseg(100, limit)}, []Pulled{{100, 0, 1, 0, limit}}, limit},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := wire.Msg{Header: wire.Header{Proc: tc.proc}, Lists: wire.Lists{Read: tc.list}}
			got, total, err := Pull(nil, &h, tc.inline, limit)
			if err != nil || total != tc.total || !slices.Equal(got, tc.want) {
				t.Errorf("got %+v, %d, %v, want %+v, %d", got, total, err, tc.want, tc.total)
			}
		})
	}
}

func TestPlanPullRefuses(t *testing.T) {
	wraps := rseg(100, 2)
	wraps.Offset = math.MaxUint64
	huge := make([]wire.ReadSegment, wire.MaxReadSegments)
	for i := range huge {
		huge[i] = rseg(100, math.MaxUint32)
	}
	tests := []struct {
		name   string
		proc   wire.Proc
		inline int
		list   []wire.ReadSegment
	}{
		{"misaligned", wire.ProcMsg, 100, []wire.ReadSegment{rseg(42, 8)}},
		{"misaligned behind a chunk", wire.ProcMsg, 100, []wire.ReadSegment{rseg(40, 6), rseg(46, 3)}},
		{"misaligned behind a whole chunk", wire.ProcMsg, 100, []wire.ReadSegment{rseg(40, 8), rseg(49, 1)}},
		{"past the end", wire.ProcMsg, 100, []wire.ReadSegment{rseg(104, 8)}},
		{"far past the end", wire.ProcMsg, 100, []wire.ReadSegment{rseg(0xfffffffc, 8)}},
		{"descending", wire.ProcMsg, 100, []wire.ReadSegment{rseg(60, 8), rseg(40, 8)}},
		{"coming back", wire.ProcMsg, 100, []wire.ReadSegment{rseg(40, 8), rseg(60, 8), rseg(40, 8)}},
		{"overlapping", wire.ProcMsg, 100, []wire.ReadSegment{rseg(40, 100), rseg(136, 8)}},
		{"Position Zero in RDMA_MSG", wire.ProcMsg, 100, []wire.ReadSegment{rseg(0, 8)}},
		{"NOMSG without chunk", wire.ProcNoMsg, 0, nil},
		{"NOMSG without Position Zero", wire.ProcNoMsg, 100, []wire.ReadSegment{rseg(40, 8)}},
		{"NOMSG of nothing", wire.ProcNoMsg, 0, []wire.ReadSegment{rseg(0, 0)}},
		{"NOMSG, Position Zero twice", wire.ProcNoMsg, 0, []wire.ReadSegment{rseg(0, 80), rseg(40, 8), rseg(0, 80)}},
		{"NOMSG, other past the end", wire.ProcNoMsg, 1000, []wire.ReadSegment{rseg(0, 80), rseg(84, 8)}},
		{"wrapping around", wire.ProcMsg, 100, []wire.ReadSegment{wraps}},
		{"4 GiB", wire.ProcMsg, 100, []wire.ReadSegment{rseg(100, math.MaxUint32)}},
		{"256 times 4 GiB", wire.ProcMsg, 100, huge},
		{"too much in two", wire.ProcMsg, 100, []wire.ReadSegment{rseg(60, 1<<20-64), rseg(60+1<<20-64, 65)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := wire.Msg{Header: wire.Header{Proc: tc.proc}, Lists: wire.Lists{Read: tc.list}}
			if got, total, err := Pull(nil, &h, tc.inline, 1<<20); !errors.Is(err, transport.ErrProtocol) {
				t.Errorf("got %+v, %d, %v", got, total, err)
			}
		})
	}
}

func TestPlanReply(t *testing.T) {
	marks := func(lens ...int) (m []xdr.Mark) {
		for i, n := range lens {
			m = append(m, xdr.Mark{Off: 100 + 8*i, Index: i, Len: n})
		}
		return m
	}
	tests := []struct {
		name  string
		lists wire.Lists
		marks []xdr.Mark
		head  int
		kind  Kind
		into  []int
		rest  int
	}{
		{"small", wire.Lists{}, nil, 100, Inline, nil, 100},
		{"just fits", wire.Lists{}, nil, 996, Inline, nil, 996},
		{"too long, no chunk", wire.Lists{}, nil, 1000, Refused, nil, 1000},
		{"payload inline", wire.Lists{}, marks(501), 100, Inline, []int{InStream}, 604},
		{"payload too long", wire.Lists{}, marks(5000), 100, Refused, []int{InStream}, 5100},
		{"write chunk", wire.Lists{Write: []wire.Chunk{chunkOf(4096, 4)}}, marks(4099), 100, Inline, []int{0}, 100},
		{"small payload takes its chunk", wire.Lists{Write: []wire.Chunk{chunkOf(4096)}}, marks(1), 100, Inline, []int{0}, 100},
		{"empty payload takes its chunk", wire.Lists{Write: []wire.Chunk{chunkOf(4096)}}, marks(0), 100, Inline, []int{0}, 100},
		{"write chunk too small", wire.Lists{Write: []wire.Chunk{chunkOf(4096)}}, marks(4097), 100, Refused, []int{}, 100},
		{"empty write chunk", wire.Lists{Write: []wire.Chunk{{}}}, marks(20), 100, Inline, []int{InStream}, 120},
		{"empty and full", wire.Lists{Write: []wire.Chunk{{}, chunkOf(5000)}}, marks(20, 5000), 100, Inline, []int{InStream, 1}, 120},
		{"unused write chunk", wire.Lists{Write: []wire.Chunk{chunkOf(10), chunkOf(10)}}, marks(10), 100, Inline, []int{0}, 100},
		{"more payloads than chunks", wire.Lists{Write: []wire.Chunk{chunkOf(10)}}, marks(10, 10), 100, Inline, []int{0, InStream}, 112},
		{"reply chunk not needed", wire.Lists{Reply: chunkOf(4096)}, nil, 100, Inline, nil, 100},
		{"reply chunk", wire.Lists{Reply: chunkOf(2000, 2000)}, nil, 4000, Long, nil, 4000},
		{"reply chunk with payload", wire.Lists{Reply: chunkOf(4200)}, marks(4097), 100, Long, []int{InStream}, 4200},
		{"reply chunk too small", wire.Lists{Reply: chunkOf(4199)}, marks(4097), 100, Refused, []int{InStream}, 4200},
		{"reply chunk of no segments", wire.Lists{Reply: wire.Chunk{}}, nil, 2000, Refused, nil, 2000},
		{"write and reply chunk", wire.Lists{Write: []wire.Chunk{chunkOf(9000)}, Reply: chunkOf(4096)}, marks(9000), 3000, Long, []int{0}, 3000},
		{"header alone too long", wire.Lists{Write: []wire.Chunk{chunkOf(make([]uint32, 70)...)}, Reply: chunkOf(4096)}, nil, 100, Refused, nil, 100},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := ForReply(nil, &tc.lists, tc.marks, returned(tc.lists), tc.head, 1024)
			if p.Kind != tc.kind || p.Stream != tc.rest || !slices.Equal(p.Into, tc.into) {
				t.Errorf("got %+v, want kind %d into %v stream %d", p, tc.kind, tc.into, tc.rest)
			}
		})
	}
}

// returned is the length of the header that returns the lists.
func returned(l wire.Lists) int {
	m := wire.Msg{Header: wire.Header{Version: wire.Version1}, Lists: l}
	return m.ReturnedLen()
}
