package plan

import (
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Shapes of NFSv3 calls in their usual sizes.
func nfsGetattr() Shape   { return Shape{Head: 80, ReplyHead: 24 + 88} }
func nfsRead(n int) Shape { return Shape{Head: 116, ReplyHead: 128, Recv: []Item{{Len: n, Segs: 1}}} }
func nfsWrite(n int) Shape {
	return Shape{Head: 120, ReplyHead: 136, Send: []Item{{Off: 120, Len: n, Segs: 1}}}
}
func longCall(n int) Shape { return Shape{Head: n, ReplyHead: 100} }
func nfsList(n int) Shape  { return Shape{Head: 112, ReplyHead: n} }

func inPieces(s Shape, n int) Shape {
	if len(s.Send) > 0 {
		s.Send[0].Segs = n
	}
	if len(s.Recv) > 0 {
		s.Recv[0].Segs = n
	}
	return s
}

func TestPlanTable(t *testing.T) {
	const (
		in, rd, pz = CallInline, CallReadChunk, CallPositionZero
		no, wr, rp = ReplyInline, ReplyWriteList, ReplyChunk
	)
	for _, c := range []struct {
		name   string
		inline int
		noDDP  bool
		s      Shape
		call   CallWay
		reply  ReplyWay
		header int
	}{
		{"NULL", 1024, false, Shape{Head: 40, ReplyHead: 24}, in, no, 28},
		{"GETATTR", 1024, false, nfsGetattr(), in, no, 28},

		{"READ small", 4096, false, nfsRead(4096 - 28 - 128), in, no, 28},
		{"READ one word more", 4096, false, nfsRead(4096 - 28 - 128 + 4), in, wr, 28 + 24},
		{"READ one byte more needs its padding", 4096, false, nfsRead(4096 - 28 - 128 + 1), in, wr, 28 + 40},
		{"READ padding counts", 4096, false, nfsRead(4096 - 28 - 128 - 3), in, no, 28},
		{"READ 1 MiB", 4096, false, nfsRead(1 << 20), in, wr, 28 + 24},
		{"READ 1 MiB of 16 pieces", 4096, false, inPieces(nfsRead(1<<20), 16), in, wr, 28 + 8 + 16*16},
		{"READ 1 MiB of 17 pieces", 4096, false, inPieces(nfsRead(1<<20), 17), in, rp, 28 + 20},
		{"READ without placement", 4096, true, nfsRead(1 << 20), in, rp, 28 + 20},
		{"READ small without placement", 4096, true, nfsRead(1024), in, no, 28},
		{"READ of nothing", 1024, false, nfsRead(0), in, no, 28},

		{"WRITE small", 4096, false, nfsWrite(4096 - 28 - 120), in, no, 28},
		{"WRITE one word more", 4096, false, nfsWrite(4096 - 28 - 120 + 4), rd, no, 28 + 24},
		{"WRITE one byte more", 4096, false, nfsWrite(4096 - 28 - 120 + 1), rd, no, 28 + 24},
		{"WRITE padding counts", 4096, false, nfsWrite(4096 - 28 - 120 - 3), in, no, 28},
		{"WRITE 1 MiB", 4096, false, nfsWrite(1 << 20), rd, no, 28 + 24},
		{"WRITE 1 MiB of 16 pieces", 4096, false, inPieces(nfsWrite(1<<20), 16), rd, no, 28 + 24*16},
		{"WRITE 1 MiB of 17 pieces", 4096, false, inPieces(nfsWrite(1<<20), 17), pz, no, 28 + 24},
		{"WRITE without placement", 4096, true, nfsWrite(1 << 20), pz, no, 28 + 2*24},
		{"WRITE without placement, padded", 4096, true, nfsWrite(1<<20 - 3), pz, no, 28 + 3*24},
		{"WRITE small without placement", 4096, true, nfsWrite(1024), in, no, 28},
		{"WRITE without placement, 15 pieces", 4096, true, inPieces(nfsWrite(1<<20), 15), pz, no, 28 + 16*24},
		{"WRITE without placement, 16 pieces", 4096, true, inPieces(nfsWrite(1<<20), 16), pz, no, 28 + 24},

		{"long call", 4096, false, longCall(4096 - 28), in, no, 28},
		{"long call, one word more", 4096, false, longCall(4096 - 28 + 4), pz, no, 28 + 24},
		{"READDIR", 4096, false, nfsList(4096 - 28), in, no, 28},
		{"READDIR, one word more", 4096, false, nfsList(4096 - 28 + 4), in, rp, 28 + 20},
		{"READDIR, ragged bound", 4096, false, nfsList(32769), in, rp, 28 + 20},
		{"long both ways", 1024, false, Shape{Head: 2000, ReplyHead: 2000}, pz, rp, 28 + 24 + 20},
		{"long call and READ", 1024, false, Shape{Head: 2000, ReplyHead: 100, Recv: []Item{{Len: 8192, Segs: 2}}}, pz, wr, 28 + 24 + 40},

		{"WRITE whose head does not fit", 1024, false,
			Shape{Head: 1000, Send: []Item{{Off: 996, Len: 8192, Segs: 1}}, ReplyHead: 100}, pz, no, 28 + 2*24},
		{"WRITE whose head just fits", 1024, false,
			Shape{Head: 1024 - 28 - 24, Send: []Item{{Off: 900, Len: 8192, Segs: 1}}, ReplyHead: 100}, rd, no, 28 + 24},
		{"WRITE whose head just does not fit", 1024, false,
			Shape{Head: 1024 - 28 - 24 + 4, Send: []Item{{Off: 900, Len: 8192, Segs: 1}}, ReplyHead: 100}, pz, no, 28 + 2*24},
		{"WRITE of 15 pieces whose head does not fit", 1024, false,
			Shape{Head: 1000, Send: []Item{{Off: 996, Len: 8192, Segs: 15}}, ReplyHead: 100}, pz, no, 28 + 16*24},
		{"WRITE of 16 pieces whose head does not fit", 1024, false,
			Shape{Head: 1000, Send: []Item{{Off: 996, Len: 8192, Segs: 16}}, ReplyHead: 100}, pz, no, 28 + 24},
		{"READ whose reply head just fits", 1024, false,
			Shape{Head: 100, ReplyHead: 1024 - 28 - 24, Recv: []Item{{Len: 8192, Segs: 1}}}, in, wr, 28 + 24},
		{"READ whose reply head just does not fit", 1024, false,
			Shape{Head: 100, ReplyHead: 1024 - 28 - 24 + 4, Recv: []Item{{Len: 8192, Segs: 1}}}, in, rp, 28 + 20},
		{"the reply chunk takes room from the call", 1024, false,
			Shape{Head: 1024 - 28 - 20, ReplyHead: 5000}, in, rp, 28 + 20},
		{"and one word more does not fit", 1024, false,
			Shape{Head: 1024 - 28 - 20 + 4, ReplyHead: 5000}, pz, rp, 28 + 20 + 24},

		{"two payloads, the larger goes", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Send: []Item{{Off: 100, Len: 500, Segs: 1}, {Off: 200, Len: 600, Segs: 1}}}, rd, no, 28 + 24},
		{"two payloads, both too large", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Send: []Item{{Off: 100, Len: 5000, Segs: 1}, {Off: 200, Len: 6000, Segs: 1}}}, rd, no, 28 + 2*24},
		{"two payloads of 17 pieces", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Send: []Item{{Off: 100, Len: 5000, Segs: 8}, {Off: 200, Len: 6000, Segs: 9}}}, pz, no, 28 + 24},
		{"two payloads and a head that does not fit", 1024, false, Shape{Head: 2000, ReplyHead: 100,
			Send: []Item{{Off: 100, Len: 5000, Segs: 1}, {Off: 200, Len: 600, Segs: 1}}}, pz, no, 28 + 3*24},
		{"two results", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Recv: []Item{{Len: 5000, Segs: 1}, {Len: 6001, Segs: 2}}}, in, wr, 28 + 24 + 8 + 3*16},
		{"two results of 17 pieces", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Recv: []Item{{Len: 5000, Segs: 8}, {Len: 6000, Segs: 9}}}, in, rp, 28 + 20},
		{"five results", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Recv: []Item{{Len: 5000, Segs: 1}, {Len: 1, Segs: 1}, {}, {}, {Len: 1, Segs: 1}}}, in, rp, 28 + 20},
		{"two results, the first empty", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Recv: []Item{{Len: 0}, {Len: 6000, Segs: 1}}}, in, wr, 28 + 8 + 24},
		{"two results, the last empty", 1024, false, Shape{Head: 200, ReplyHead: 100,
			Recv: []Item{{Len: 6000, Segs: 1}, {Len: 0}}}, in, wr, 28 + 24},
		{"most of all lists", 1024, false, Shape{Head: 2000, ReplyHead: 100,
			Send: []Item{{Off: 0, Len: 5001, Segs: 15}},
			Recv: []Item{{Len: 5001, Segs: 13}, {Len: 1, Segs: 1}, {Len: 1, Segs: 1}, {Len: 1, Segs: 1}}}, pz, wr, 28 + 16*24 + 4*8 + 20*16},
		{"copy from file to file", 4096, false, Shape{Head: 200, ReplyHead: 100,
			Send: []Item{{Off: 200, Len: 8192, Segs: 1}}, Recv: []Item{{Len: 8192, Segs: 1}}}, rd, wr, 28 + 24 + 24},
	} {
		p := Make(&c.s, Terms{Version: wire.Version1, SendInline: c.inline, RecvInline: c.inline, NoDDP: c.noDDP})
		if p.Call != c.call || p.Reply != c.reply || p.HeaderLen != c.header {
			t.Errorf("%s: got call %d reply %d header %d, want %d %d %d",
				c.name, p.Call, p.Reply, p.HeaderLen, c.call, c.reply, c.header)
		}
	}
}

func TestPlanChoosesItems(t *testing.T) {
	terms := Terms{Version: wire.Version1, SendInline: 1024, RecvInline: 1024}
	s := Shape{Head: 200, ReplyHead: 100,
		Send: []Item{{Off: 100, Len: 601, Segs: 1}, {Off: 200, Len: 600, Segs: 1}},
		Recv: []Item{{}, {Len: 5001, Segs: 1}}}
	p := Make(&s, terms)
	if p.Reduced != 1 || p.Written != 2 || p.CallLen != 200+604+600 {
		t.Errorf("got %+v", p)
	}
	terms.NoDDP = true
	if p = Make(&s, terms); p.Reduced != 0 || p.Written != 0 || p.ReplyLen != 100+5004 {
		t.Errorf("without placement: got %+v", p)
	}
}

// TestPlanAtThresholds walks the sizes around each threshold and checks every
// plan against what it promises: nothing over a threshold is sent inline, and
// nothing within it is sent otherwise.
func TestPlanAtThresholds(t *testing.T) {
	for _, inline := range []int{1024, 4096, 65536} {
		terms := Terms{Version: wire.Version1, SendInline: inline, RecvInline: inline}
		for d := -80; d <= 80; d++ {
			n := inline + d
			for name, s := range map[string]Shape{
				"head": longCall(n - n%4), "write": nfsWrite(n - 148), "read": nfsRead(n - 156), "list": nfsList(n - n%4),
			} {
				for _, terms.NoDDP = range []bool{false, true} {
					what := fmt.Sprintf("%s of %+v at %+v", name, s, terms)
					checkPlan(t, what, &s, terms)
				}
			}
		}
	}
}

func checkPlan(t *testing.T, what string, s *Shape, terms Terms) {
	t.Helper()
	p := Make(s, terms)
	call, reply := s.Head, s.ReplyHead
	for _, it := range s.Send {
		call += it.Len + xdr.Pad(it.Len)
	}
	for _, it := range s.Recv {
		reply += it.Len + xdr.Pad(it.Len)
	}
	reduced, segs := 0, 0
	for i, it := range s.Send {
		if p.Reduced.Has(i) {
			reduced += it.Padded()
			segs += it.Segs
		}
	}
	sent := p.HeaderLen
	switch p.Call {
	case CallInline:
		sent += call
	case CallReadChunk:
		sent += call - reduced
		if terms.NoDDP {
			t.Errorf("%s: read chunk", what)
		}
	}
	if sent > terms.SendInline {
		t.Errorf("%s: sends %d bytes", what, sent)
	}
	provisions := p.HeaderLen - wire.EmptyLen1
	switch p.Call {
	case CallReadChunk:
		provisions -= 24 * segs
	case CallPositionZero:
		n := s.Pieces(0)
		if p.Copy {
			n = 1
		} else if segs > 0 {
			n = 1 + segs
		}
		provisions -= 24 * n
	}
	if (p.Call == CallInline) != (wire.EmptyLen1+provisions+call <= terms.SendInline) {
		t.Errorf("%s: call way %d", what, p.Call)
	}
	if (p.Reply == ReplyInline) != (wire.EmptyLen1+reply <= terms.RecvInline) {
		t.Errorf("%s: reply way %d", what, p.Reply)
	}
	switch p.Reply {
	case ReplyWriteList:
		if terms.NoDDP || wire.EmptyLen1+provisions+s.ReplyHead > terms.RecvInline {
			t.Errorf("%s: write list", what)
		}
	case ReplyChunk:
		if p.ReplyLen < reply || p.ReplyLen%4 != 0 {
			t.Errorf("%s: reply chunk of %d for %d bytes", what, p.ReplyLen, reply)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(uint16(120), uint32(1<<20), uint8(1), uint16(136), uint32(0), uint8(0), uint16(4096), false)
	f.Add(uint16(116), uint32(0), uint8(0), uint16(128), uint32(1<<20-1), uint8(16), uint16(1024), true)
	f.Fuzz(func(t *testing.T, head uint16, send uint32, sendSegs uint8, reply uint16, recv uint32, recvSegs uint8, inline uint16, noDDP bool) {
		s := Shape{Head: int(head) &^ 3, ReplyHead: int(reply)}
		if send > 0 {
			s.Send = []Item{{Off: s.Head / 8 * 4, Len: int(send), Segs: int(sendSegs) + 1}}
		}
		if recv > 0 {
			s.Recv = []Item{{Len: int(recv), Segs: int(recvSegs) + 1}}
		}
		terms := Terms{Version: wire.Version1, SendInline: max(int(inline), wire.MinInline), RecvInline: max(int(inline), wire.MinInline), NoDDP: noDDP}
		checkPlan(t, fmt.Sprintf("%+v at %+v", s, terms), &s, terms)
	})
}
