package requester

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// marshal makes of c the work requests s.WRs: one that binds a window for each
// key that the header names, and the Send. It may wait for a long buffer.
// Nothing is posted yet; the keys to be are in s.binds.
func (r *Requester) marshal(ctx context.Context, s *slot, xid uint32, c *transport.Call) error {
	s.binds, s.placed, s.exposed = s.binds[:0], s.placed[:0], false
	s.cw.Reset(s.call.Bytes(), c.Send)
	oncrpc.AppendCall(&s.cw, xid, c)
	if err := r.measure(s, c); err != nil {
		return err
	}
	terms := s.terms
	terms.NoDDP = terms.NoDDP || !c.Direct()
	s.plan = plan.Make(&s.shape, terms)
	if r.corners != nil {
		r.corners.encode(s, xid, c)
	}
	if err := r.bound(s); err != nil {
		return err
	}
	if err := r.leaseLong(ctx, s); err != nil {
		return err
	}
	s.WRs, s.local = s.WRs[:0], s.local[:0]
	s.segs = s.segs[:0]
	s.request = wire.Msg{
		Header: wire.Header{XID: xid, Version: s.terms.Version, Credits: uint32(r.credits.Requested), Proc: wire.ProcMsg},
		Lists:  wire.Lists{Read: s.request.Lists.Read[:0]},
	}
	if err := r.provideForReply(s); err != nil {
		return err
	}
	if err := r.gather(s, c); err != nil {
		return err
	}
	if s.terms.Version == wire.Version2 && r.invalidates && len(s.binds) > 0 {
		// Any will do: all keys are bound for this call alone.
		s.request.InvHandle = s.binds[0].rkey
	}
	s.hw.Reset(s.header.Bytes(), nil)
	if s.plan.Padded {
		r.corners.appendHeader(s)
	} else {
		s.request.Append(&s.hw)
	}
	if n := len(s.hw.Bytes()); n != s.plan.HeaderLen {
		return fmt.Errorf("header of %d bytes where %d were planned", n, s.plan.HeaderLen)
	}
	r.addSend(s)
	return nil
}

// measure fills in s.shape.
func (r *Requester) measure(s *slot, c *transport.Call) error {
	s.runs, s.send, s.recv = s.runs[:0], s.send[:0], s.recv[:0]
	s.shape.Head = len(s.cw.Bytes())
	s.shape.ReplyHead = oncrpc.ReplyBound(c)
	s.shape.Send, s.shape.Recv = s.shape.Send[:0], s.shape.Recv[:0]
	out, in := 0, 0
	for _, m := range s.cw.Marks() {
		sp := s.addRuns(c.Send[m.Index])
		s.send = append(s.send, sp)
		s.shape.Send = append(s.shape.Send, plan.Item{Off: m.Off, Len: m.Len, Segs: sp.to - sp.from})
		out += m.Len
	}
	for _, v := range c.Recv {
		sp := s.addRuns(v)
		s.recv = append(s.recv, sp)
		s.shape.Recv = append(s.shape.Recv, plan.Item{Len: v.Len(), Segs: sp.to - sp.from})
		in += v.Len()
	}
	if most := r.maxPayload; out > most || in > most {
		return fmt.Errorf("payloads of %d and %d bytes exceed the limit of %d", out, in, most)
	}
	return nil
}

// callBytes is the length of the call's message with its payloads.
func (s *slot) callBytes() int {
	n := s.shape.Head
	for i := range s.shape.Send {
		n += s.shape.Send[i].Padded()
	}
	return n
}

// leaseLong leases what the plan needs of long buffers, in one piece, so that
// no two calls can each hold what the other waits for.
func (r *Requester) leaseLong(ctx context.Context, s *slot) error {
	call := 0
	if s.plan.Call == plan.CallPositionZero {
		call = s.plan.StreamLen(&s.shape)
		if call <= s.call.Len {
			call = 0
		}
	}
	reply := s.plan.ReplyLen
	if call+reply == 0 {
		return nil
	}
	at := (call + 7) &^ 7
	seg, err := r.conn.Lend(ctx, at+reply)
	if err != nil {
		return err
	}
	s.lease, s.longCall, s.longReply = seg, seg.Slice(0, call), seg.Slice(at, reply)
	return nil
}

// provideForReply offers the write chunks or the reply chunk of the plan.
func (r *Requester) provideForReply(s *slot) error {
	lists := &s.request.Lists
	switch s.plan.Reply {
	case plan.ReplyWriteList:
		for i, it := range s.shape.Recv[:s.plan.Written] {
			for _, seg := range s.runs[s.recv[i].from:s.recv[i].to] {
				if err := r.offer(s, seg); err != nil {
					return err
				}
			}
			if n := xdr.Pad(it.Len); n > 0 {
				if err := r.offer(s, s.scratch.Slice(0, n)); err != nil {
					return err
				}
			}
			s.ends[i] = len(s.segs)
		}
		from := 0
		for i, to := range s.ends[:s.plan.Written] {
			s.chunks[i] = wire.Chunk(s.segs[from:to:to])
			from = to
		}
		lists.Write = s.chunks[:s.plan.Written]
	case plan.ReplyChunk:
		if err := r.offer(s, s.longReply); err != nil {
			return err
		}
		lists.Reply = wire.Chunk(s.segs)
	}
	return nil
}

// offer lets the peer write seg and appends it to the chunk being made.
func (r *Requester) offer(s *slot, seg mem.Seg) error {
	rkey, addr, err := r.bind(s, seg, verbs.RemoteWrite)
	if err != nil {
		return err
	}
	s.segs = append(s.segs, wire.Segment{Handle: rkey, Length: uint32(seg.Len), Offset: addr})
	return nil
}

// gather lays out the call and lists in s.pieces what of it goes into the
// Send; the rest goes into the read list.
func (r *Requester) gather(s *slot, c *transport.Call) error {
	marks, src := s.cw.Marks(), s.cw.Bytes()
	buf, whole := s.call, false
	switch s.plan.Call {
	case plan.CallInline, plan.CallReadChunk:
		payloads := 0
		for i, it := range s.shape.Send {
			if !s.plan.Reduced.Has(i) {
				payloads += it.Padded()
			}
		}
		whole = r.copies || payloads <= CopyInline || 1+s.shape.Pieces(s.plan.Reduced) > r.maxSGE
	case plan.CallPositionZero:
		whole = s.plan.Copy
		if s.longCall.Len > 0 {
			buf = s.longCall
		}
	}
	n := plan.LayOut(buf.Bytes(), src, marks, c.Send, s.plan.Reduced, whole)
	stream := buf.Slice(0, n)
	if whole {
		s.pieces = append(s.pieces[:0], piece{stream, true})
	} else {
		s.cut(stream, marks, s.plan.Reduced)
	}
	if s.plan.Call == plan.CallPositionZero {
		s.request.Proc = wire.ProcNoMsg
		if err := r.positionZero(s, stream); err != nil {
			return err
		}
	}
	return r.readChunks(s, marks)
}

// readChunks lets the peer fetch the reduced payloads.
func (r *Requester) readChunks(s *slot, marks []xdr.Mark) error {
	for i, sp := range s.send {
		if !s.plan.Reduced.Has(i) {
			continue
		}
		for _, seg := range s.runs[sp.from:sp.to] {
			rkey, addr, err := r.bind(s, seg, verbs.RemoteRead)
			if err != nil {
				return err
			}
			s.addRead(marks[i].Pos, rkey, addr, seg.Len)
		}
	}
	return nil
}

// positionZero lets the peer fetch the call without its reduced payloads. The stretches of the stream
// are one stretch of memory and have one key.
func (r *Requester) positionZero(s *slot, stream mem.Seg) error {
	rkey, base, err := r.bind(s, stream, verbs.RemoteRead)
	if err != nil {
		return err
	}
	for _, p := range s.pieces {
		if p.stream {
			s.addRead(0, rkey, base+uint64(p.seg.Off-stream.Off), p.seg.Len)
			continue
		}
		rkey, addr, err := r.bind(s, p.seg, verbs.RemoteRead)
		if err != nil {
			return err
		}
		s.addRead(0, rkey, addr, p.seg.Len)
	}
	s.pieces = s.pieces[:0]
	return nil
}

func (s *slot) addRead(pos int, rkey uint32, addr uint64, n int) {
	s.request.Lists.Read = append(s.request.Lists.Read, wire.ReadSegment{
		Position: uint32(pos),
		Segment:  wire.Segment{Handle: rkey, Length: uint32(n), Offset: addr},
	})
}

// bind appends the request that makes seg reachable and returns under which
// key and address.
func (r *Requester) bind(s *slot, seg mem.Seg, access verbs.Access) (rkey uint32, addr uint64, err error) {
	if r.regionKeys {
		s.exposed = true
		return r.names.Next(seg), r.names.Addr(seg), nil
	}
	w, err := r.takeWindow(s)
	if err != nil {
		return 0, 0, err
	}
	rkey, addr = w.Next(seg), w.Addr(seg)
	s.binds = append(s.binds, key{window: w, rkey: rkey})
	s.local = append(s.local, seg)
	n := len(s.local)
	s.WRs = append(s.WRs, verbs.SendWR{
		ID: sendID(s), Op: verbs.OpBind, Window: w, Access: access, Local: s.local[n-1 : n : n],
	})
	return rkey, addr, nil
}

// addSend appends the Send of the header and the pieces. When it takes bytes
// from the caller's memory its completion is asked for.
func (r *Requester) addSend(s *slot) {
	start := len(s.local)
	s.local = append(s.local, s.header.Slice(0, s.plan.HeaderLen))
	borrows := false
	for _, p := range s.pieces {
		s.local = append(s.local, p.seg)
		borrows = borrows || !p.stream
	}
	s.WRs = append(s.WRs, verbs.SendWR{
		ID: sendID(s), Op: verbs.OpSend, Signaled: borrows, Local: s.local[start:len(s.local):len(s.local)],
	})
}
