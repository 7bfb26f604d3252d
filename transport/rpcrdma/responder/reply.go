package responder

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
func (k *Call) sendReply(ctx context.Context, room int) {
	l := &k.Hdr.Lists
	head, marks := k.reply.Bytes(), k.reply.Marks()
	offered := wire.Lists{Write: l.Write, Reply: l.Reply}
	if k.rules.Unwritten {
		offered.Write = nil
	}
	how := plan.ForReply(k.into, &offered, marks, room, len(head), k.Msg.Len)
	if how.Kind == plan.Refused && k.opens != nil && k.Hdr.Version == wire.Version1 {
		how = plan.Exposed(how, marks, k.segsOf, k.rules.MaxExposed, room, len(head), k.Msg.Len)
	}
	k.into = how.Into
	if n := how.Stream; n > k.rules.MaxReply {
		how.Kind, how.Why = plan.Refused, plan.Refuse(wire.ErrSystem, wire.Fault{}, "reply of %d bytes", n)
	}
	if how.Kind == plan.Refused {
		k.rules.Log.Warn("a reply exceeds what its peer provided for", "xid", k.Hdr.XID, "bytes", k.reply.Len())
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
	k.WRs = k.WRs[:0]
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
		Header:    wire.Header{XID: k.Hdr.XID, Version: k.Hdr.Version, Proc: wire.ProcMsg},
		Direction: wire.DirReply, Lists: wire.Lists{Write: l.Write, Reply: l.Reply},
	}
	reply := &k.rep
	body := k.Msg.Slice(0, room)
	var msg mem.Vec
	switch how.Kind {
	case plan.Long:
		k.addWrites(l.Reply, k.gather(headSeg, 0, marks, how.Into))
		l.Reply.Fill(how.Stream)
		reply.Proc = wire.ProcNoMsg
		msg = k.Local(body)
		k.rules.Count.LongReplies.Add(1)
	case plan.Read, plan.ReadLong:
		l.Reply.Fill(0)
		if reply.Lists.Read, err = k.opens.Expose(ctx, how, headSeg, marks); err != nil {
			k.giveUp(ctx, err)
			return
		}
		n := room + wire.ReadListLen(how.Exposed)
		if how.Kind == plan.Read {
			// Nothing but the stream's head is left to follow the longer header.
			copy(k.Msg.Slice(n, headSeg.Len).Bytes(), headSeg.Bytes())
			n += headSeg.Len
		} else {
			reply.Proc = wire.ProcNoMsg
		}
		msg = k.Local(k.Msg.Slice(0, n))
		k.rules.Count.ReadReplies.Add(1)
	default:
		l.Reply.Fill(0)
		body = k.Msg.Slice(0, room+len(head))
		msg = k.gather(body, room, marks, how.Into)
		if len(msg) > k.rules.MaxSGE {
			msg = k.Local(k.insert(body.Len, room, marks, how.Into))
		}
	}
	send := verbs.SendWR{Op: verbs.OpSend, Local: msg}
	if rkey, ok := k.invalidatable(); ok {
		send.Op, send.RKey = verbs.OpSendInvalidate, rkey
		k.rules.Count.Invalidations.Add(1)
	}
	k.rules.Count.Replies.Add(1)
	k.send(ctx, reply, send)
	if len(reply.Lists.Read) > 0 {
		k.opens.Published(ctx)
	}
}

// segsOf is the number of segments of a payload of the reply.
func (k *Call) segsOf(m xdr.Mark) (n int) {
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
func (k *Call) invalidatable() (rkey uint32, ok bool) {
	if k.Hdr.Version == wire.Version2 {
		rkey = k.Hdr.Invalidatable()
		return rkey, rkey != 0
	}
	k.keys = k.Hdr.Lists.Keys(k.keys[:0])
	if !k.rules.Invalidate1 || len(k.keys) != 1 {
		return 0, false
	}
	return k.keys[0], true
}

// SendError answers with RDMA_ERROR (RFC 8166 section 4.5; the draft, section
// 7.2.4).
func (k *Call) SendError(ctx context.Context, to *wire.Header, code wire.ErrCode, fault wire.Fault) {
	if code == wire.ErrVers {
		k.rules.Count.VersErrors.Add(1)
	} else {
		k.rules.Count.ChunkErrors.Add(1)
	}
	k.WRs = k.WRs[:0]
	e := &wire.Error{
		Header: wire.Header{XID: to.XID, Version: to.Version, Proc: wire.ProcError},
		Code:   code, Low: k.rules.Versions.Low, High: k.rules.Versions.High, Fault: fault,
	}
	k.head.Reset(k.buf.Bytes(), nil)
	e.Append(&k.head)
	k.send(ctx, e, verbs.SendWR{Op: verbs.OpSend, Local: k.Local(k.buf.Slice(0, len(k.head.Bytes())))})
}

// send gives the receive buffer back, encodes m with the grant at the start of
// buf, and posts wrs with the Send after them.
func (k *Call) send(ctx context.Context, m wire.Message, send verbs.SendWR) {
	// What the peer may send by reason of this reply must find a receive.
	credits, err := k.host.Grant()
	if err == nil {
		m.Fixed().Credits = uint32(credits)
		k.head.Reset(k.buf.Bytes(), nil)
		m.Append(&k.head)
		k.rules.Count.Sent.Add(uint64(send.Local.Len()))
		k.WRs = append(k.WRs, send)
		err = k.host.Post(ctx)
	}
	if err != nil {
		k.host.Abandon(ctx, err)
	}
}

// placeHead makes the head of the reply stand in registered memory and returns
// where: in msg after the header, or, if it outgrew that or the header will, in
// memory leased for the call. When there is none, a reply that has nothing in the
// call's own gives that back, and waits.
func (k *Call) placeHead(ctx context.Context, head []byte, room int, how plan.Reply) (mem.Seg, error) {
	if len(head) == 0 {
		return mem.Seg{}, nil
	}
	if len(head) <= k.Msg.Len-room && how.Kind != plan.ReadLong {
		s := k.Msg.Slice(room, len(head))
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
func (k *Call) gather(head mem.Seg, shift int, marks []xdr.Mark, into []int) mem.Vec {
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
			k.sg = append(k.sg, k.rules.Zeros.Slice(0, n))
		}
	}
	if at < head.Len {
		k.sg = append(k.sg, head.Slice(at, head.Len-at))
	}
	return k.sg[start:len(k.sg):len(k.sg)]
}

// insert is gather for a message of more pieces than the device takes: it
// moves the payloads into msg, of which n bytes are in use, from the last on.
func (k *Call) insert(n, shift int, marks []xdr.Mark, into []int) mem.Seg {
	total := n
	for i, m := range marks {
		if into[i] == plan.InStream {
			total += m.Len + xdr.Pad(m.Len)
		}
	}
	b := k.Msg.Slice(0, total).Bytes()
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
	return k.Msg.Slice(0, total)
}

// addWrites appends the RDMA Writes that place v in c, which has room for it:
// the segments filled in order, each request within the device's limits.
func (k *Call) addWrites(c wire.Chunk, v mem.Vec) {
	left, off := v.Len(), 0
	for _, s := range c {
		for done := 0; done < int(s.Length) && left > 0; {
			n := min(int(s.Length)-done, left, k.rules.MaxMessage)
			start := len(k.sg)
			k.sg = v.Slice(k.sg, off, n)
			if len(k.sg)-start > k.rules.MaxSGE {
				k.sg = k.sg[:start+k.rules.MaxSGE]
				n = mem.Vec(k.sg[start:]).Len()
			}
			k.WRs = append(k.WRs, verbs.SendWR{
				Op: verbs.OpWrite, RKey: s.Handle, Addr: s.Offset + uint64(done),
				Local: k.sg[start:len(k.sg):len(k.sg)],
			})
			k.rules.Count.Writes.Add(1)
			k.rules.Count.BytesWritten.Add(uint64(n))
			off, done, left = off+n, done+n, left-n
		}
	}
}
