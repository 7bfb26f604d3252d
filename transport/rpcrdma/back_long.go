package rpcrdma

import (
	"context"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// Calls of the server's with chunks, which version 2 allows when the client says
// RDMA2_BKREQSUP_GENL (the draft, section 6.2.2).

// maxBackLong bounds the bytes pulled for one such call, and those of its reply.
const maxBackLong = 64 << 10

// fetch pulls the read chunks of a call of version 2, which is followed by
// stream, and makes args ready. Write chunks stay unused: what would go into
// them comes in the stream.
func (k *backCall) fetch(ctx context.Context, stream []byte) *plan.Refusal {
	var err error
	if k.plan, _, err = plan.Pull(k.plan[:0], &k.hdr, len(stream), k.longCall.Len); err != nil {
		return plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "%v", err)
	}
	if len(k.plan) > 0 && !k.l.mayRead() {
		return plan.Refuse(wire.ErrReadChunks, wire.Fault{}, "read chunk on a connection that allows no RDMA Read")
	}
	k.chunks = k.chunks[:0]
	for _, p := range k.plan {
		off := p.Off
		for _, s := range k.hdr.Lists.Read[p.First:p.Last] {
			if !k.read(ctx, s.Segment, off) {
				return plan.Refuse(wire.ErrSystem, wire.Fault{}, "link lost")
			}
			off += int(s.Length)
		}
		k.chunks = append(k.chunks, chunkData{pos: p.Pos, data: k.longCall.Slice(p.Off, p.Len).Bytes()})
	}
	if k.hdr.Proc == wire.ProcNoMsg {
		k.layout = received{chunks: k.chunks[1:]}
		k.args.Reset(k.chunks[0].data, nil)
	} else {
		k.layout = received{chunks: k.chunks}
		k.args.Reset(stream, nil)
	}
	k.layout.layOut(&k.args)
	return nil
}

// mayRead reports whether the server serves RDMA Reads at all, by the connection and
// by the Connection Configuration Protocol. Here one at a time is under way.
func (l *link) mayRead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads > 0
}

// read fetches a segment to off of longCall, one request at a time. It tells
// whether the link lives.
func (k *backCall) read(ctx context.Context, s wire.Segment, off int) bool {
	most := k.l.d.cfg.Device.Caps().MaxMessage
	for done := 0; done < int(s.Length); {
		n := min(int(s.Length)-done, most)
		k.local = append(k.local[:0], k.longCall.Slice(off+done, n))
		k.wrs = append(k.wrs[:0], verbs.SendWR{
			Op: verbs.OpRead, Local: k.local, RKey: s.Handle, Addr: s.Offset + uint64(done),
		})
		if !k.carryOut(ctx) {
			return false
		}
		done += n
	}
	return true
}

// place puts the reply of n bytes, which stands in longReply, into msg behind
// room for the header if it fits there, and else, by the requests it leaves in
// k.wrs, into the reply chunk of h.
func (k *backCall) place(h *wire.Msg, room, n int) (int, *plan.Refusal, bool) {
	chunk := h.Lists.Reply
	if room+n <= k.msg.Len {
		copy(k.msg.Slice(room, n).Bytes(), k.longReply.Bytes())
		chunk.Fill(0)
		return room + n, nil, false
	}
	if n > chunk.Len() {
		return 0, plan.Refuse(wire.ErrReplyResource, wire.Fault{Needed: uint32(n)}, "reply of %d bytes for a chunk of %d", n, chunk.Len()), false
	}
	chunk.Fill(n)
	most, off := k.l.d.cfg.Device.Caps().MaxMessage, 0
	k.local = k.local[:0]
	for _, s := range chunk {
		for done := 0; done < int(s.Length); {
			m := min(int(s.Length)-done, most)
			k.local = append(k.local, k.longReply.Slice(off, m))
			i := len(k.local)
			k.wrs = append(k.wrs, verbs.SendWR{Op: verbs.OpWrite, Local: k.local[i-1 : i : i], RKey: s.Handle, Addr: s.Offset + uint64(done)})
			off, done = off+m, done+m
		}
	}
	h.Proc = wire.ProcNoMsg
	return room, nil, false
}
