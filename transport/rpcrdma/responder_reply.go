package rpcrdma

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// sendReply sends what the handler has encoded; room is the length of the
// header that goes before it.
func (k *served) sendReply(ctx context.Context, room int) {
	l := &k.hdr.Lists
	head, marks := k.reply.Bytes(), k.reply.Marks()
	offered := wire.Lists{Write: l.Write, Reply: l.Reply}
	if k.rules.unwritten {
		offered.Write = nil
	}
	how := plan.ForReply(k.into, &offered, marks, room, len(head), k.msg.Len)
	if how.Kind == plan.Refused && k.opens != nil && k.hdr.Version == Version1 {
		how = plan.Exposed(how, marks, k.segsOf, maxExposed, room, len(head), k.msg.Len)
	}
	k.into = how.Into
	if n := how.Stream; n > k.rules.maxReply {
		how.Kind, how.Why = plan.Refused, plan.Refuse(wire.ErrSystem, wire.Fault{}, "reply of %d bytes", n)
	}
	if how.Kind == plan.Refused {
		k.rules.log.Warn("a reply exceeds what its peer provided for", "xid", k.hdr.XID, "bytes", k.reply.Len())
		k.giveUp(ctx, how.Why)
		return
	}
	headSeg, err := k.placeHead(ctx, head, room, how)
	if errors.Is(err, longbuf.ErrTooLarge) || errors.Is(err, longbuf.ErrNone) {
		err = plan.Refuse(wire.ErrSystem, wire.Fault{}, "reply of %d bytes: %v", k.reply.Len(), err)
	}
	if err != nil {
		k.giveUp(ctx, err)
		return
	}
	k.wrs = k.wrs[:0]
	for i, m := range marks {
		if how.Into[i] >= 0 {
			k.addWrites(l.Write[i], k.payloads[m.Index])
		}
	}
	for i, w := range l.Write {
		n := 0
		if i < len(marks) && how.Into[i] >= 0 {
			n = marks[i].Len
		}
		w.Fill(n)
	}
	k.rep = wire.Msg{
		Header:    wire.Header{XID: k.hdr.XID, Version: k.hdr.Version, Proc: wire.ProcMsg},
		Direction: wire.DirReply, Lists: wire.Lists{Write: l.Write, Reply: l.Reply},
	}
	reply := &k.rep
	body := k.msg.Slice(0, room)
	var msg mem.Vec
	switch how.Kind {
	case plan.Long:
		k.addWrites(l.Reply, k.gather(headSeg, 0, marks, how.Into))
		l.Reply.Fill(how.Stream)
		reply.Proc = wire.ProcNoMsg
		msg = k.local(body)
		k.rules.count.longReplies.Add(1)
	case plan.Read, plan.ReadLong:
		l.Reply.Fill(0)
		if reply.Lists.Read, err = k.opens.expose(ctx, how, headSeg, marks); err != nil {
			k.giveUp(ctx, err)
			return
		}
		n := room + wire.ReadListLen(how.Exposed)
		if how.Kind == plan.Read {
			// Nothing but the stream's head is left to follow the longer header.
			copy(k.msg.Slice(n, headSeg.Len).Bytes(), headSeg.Bytes())
			n += headSeg.Len
		} else {
			reply.Proc = wire.ProcNoMsg
		}
		msg = k.local(k.msg.Slice(0, n))
		k.rules.count.readReplies.Add(1)
	default:
		l.Reply.Fill(0)
		body = k.msg.Slice(0, room+len(head))
		msg = k.gather(body, room, marks, how.Into)
		if len(msg) > k.rules.maxSGE {
			msg = k.local(k.insert(body.Len, room, marks, how.Into))
		}
	}
	send := verbs.SendWR{Op: verbs.OpSend, Local: msg}
	if rkey, ok := k.invalidatable(); ok {
		send.Op, send.RKey = verbs.OpSendInvalidate, rkey
		k.rules.count.invalidations.Add(1)
	}
	k.rules.count.replies.Add(1)
	k.send(ctx, reply, send)
	if len(reply.Lists.Read) > 0 {
		k.opens.published(ctx)
	}
}

// segsOf is the number of segments of a payload of the reply.
func (k *served) segsOf(m xdr.Mark) (n int) {
	for _, s := range k.payloads[m.Index] {
		if s.Len > 0 {
			n++
		}
	}
	return n
}

// invalidatable is the key that the Send of the reply is to invalidate: the one
// that a call of version 2 names for that; with version 1, the only one that
// the call came with, if the peer takes that at all.
func (k *served) invalidatable() (rkey uint32, ok bool) {
	if k.hdr.Version == Version2 {
		rkey = k.hdr.Invalidatable()
		return rkey, rkey != 0
	}
	k.keys = k.hdr.Lists.Keys(k.keys[:0])
	if !k.rules.invalidate1 || len(k.keys) != 1 {
		return 0, false
	}
	return k.keys[0], true
}

// sendError answers with RDMA_ERROR (RFC 8166 section 4.5; the draft, section
// 7.2.4).
func (k *served) sendError(ctx context.Context, to *wire.Header, code wire.ErrCode, fault wire.Fault) {
	if code == wire.ErrVers {
		k.rules.count.versErrors.Add(1)
	} else {
		k.rules.count.chunkErrors.Add(1)
	}
	k.wrs = k.wrs[:0]
	e := &wire.Error{
		Header: wire.Header{XID: to.XID, Version: to.Version, Proc: wire.ProcError},
		Code:   code, Low: k.rules.versions.Low, High: k.rules.versions.High, Fault: fault,
	}
	k.head.Reset(k.buf.Bytes(), nil)
	e.Append(&k.head)
	k.send(ctx, e, verbs.SendWR{Op: verbs.OpSend, Local: k.local(k.buf.Slice(0, len(k.head.Bytes())))})
}

// send gives the receive buffer back, encodes m with the grant at the start of
// buf, and posts wrs with the Send after them.
func (k *served) send(ctx context.Context, m wire.Message, send verbs.SendWR) {
	// What the peer may send by reason of this reply must find a receive.
	credits, err := k.host.grant()
	if err == nil {
		m.Fixed().Credits = uint32(credits)
		k.head.Reset(k.buf.Bytes(), nil)
		m.Append(&k.head)
		k.rules.count.sent.Add(uint64(send.Local.Len()))
		k.wrs = append(k.wrs, send)
		err = k.host.post(ctx)
	}
	if err != nil {
		k.host.abandon(ctx, err)
	}
}

// placeHead makes the head of the reply stand in registered memory and returns
// where: in msg after the header, or, if it outgrew that or the header will, in
// memory leased for the call. When there is none, a reply that has nothing in the
// call's own gives that back, and waits.
func (k *served) placeHead(ctx context.Context, head []byte, room int, how plan.Reply) (mem.Seg, error) {
	if len(head) == 0 {
		return mem.Seg{}, nil
	}
	if len(head) <= k.msg.Len-room && how.Kind != plan.ReadLong {
		s := k.msg.Slice(room, len(head))
		if b := s.Bytes(); &b[0] != &head[0] {
			copy(b, head)
		}
		return s, nil
	}
	s, err := k.req.Lease(len(head))
	if errors.Is(err, longbuf.ErrNone) && !k.standsInLease() {
		k.giveBack()
		s, err = k.leaseUnoffered(ctx, len(head))
	}
	if err == nil {
		copy(s.Bytes(), head)
	}
	return s, err
}

// gather lists what makes up the reply's stream: head, in which marks are at
// shift from where they say, and the payloads that stay in the stream, padded.
func (k *served) gather(head mem.Seg, shift int, marks []xdr.Mark, into []int) mem.Vec {
	start, at := len(k.sg), 0
	for i, m := range marks {
		if into[i] != plan.InStream || m.Len == 0 {
			continue
		}
		if cut := m.Off + shift; cut > at {
			k.sg = append(k.sg, head.Slice(at, cut-at))
			at = cut
		}
		for _, s := range k.payloads[m.Index] {
			if s.Len > 0 {
				k.sg = append(k.sg, s)
			}
		}
		if n := xdr.Pad(m.Len); n > 0 {
			k.sg = append(k.sg, k.rules.zeros.Slice(0, n))
		}
	}
	if at < head.Len {
		k.sg = append(k.sg, head.Slice(at, head.Len-at))
	}
	return k.sg[start:len(k.sg):len(k.sg)]
}

// insert is gather for a message of more pieces than the device takes: it
// moves the payloads into msg, of which n bytes are in use, from the last on.
func (k *served) insert(n, shift int, marks []xdr.Mark, into []int) mem.Seg {
	total := n
	for i, m := range marks {
		if into[i] == plan.InStream {
			total += m.Len + xdr.Pad(m.Len)
		}
	}
	b := k.msg.Slice(0, total).Bytes()
	end, tail := total, n // b[tail:n] has been moved to its place from end on
	for i := len(marks) - 1; i >= 0; i-- {
		m := marks[i]
		if into[i] != plan.InStream {
			continue
		}
		cut := m.Off + shift
		end -= tail - cut
		copy(b[end:], b[cut:tail])
		tail = cut
		pad := xdr.Pad(m.Len)
		clear(b[end-pad : end])
		end -= m.Len + pad
		k.payloads[m.Index].CopyOut(0, b[end:end+m.Len])
	}
	return k.msg.Slice(0, total)
}

// addWrites appends the RDMA Writes that place v in c, which has room for it:
// the segments filled in order, each request within the device's limits.
func (k *served) addWrites(c wire.Chunk, v mem.Vec) {
	left, off := v.Len(), 0
	for _, s := range c {
		for done := 0; done < int(s.Length) && left > 0; {
			n := min(int(s.Length)-done, left, k.rules.maxMessage)
			start := len(k.sg)
			k.sg = v.Slice(k.sg, off, n)
			if len(k.sg)-start > k.rules.maxSGE {
				k.sg = k.sg[:start+k.rules.maxSGE]
				n = mem.Vec(k.sg[start:]).Len()
			}
			k.wrs = append(k.wrs, verbs.SendWR{
				Op: verbs.OpWrite, RKey: s.Handle, Addr: s.Offset + uint64(done),
				Local: k.sg[start:len(k.sg):len(k.sg)],
			})
			k.rules.count.writes.Add(1)
			k.rules.count.bytesWritten.Add(uint64(n))
			off, done, left = off+n, done+n, left-n
		}
	}
}
