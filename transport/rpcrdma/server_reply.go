package rpcrdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// sendReply sends what the handler has encoded; room is the length of the
// header that goes before it.
func (k *serverCall) sendReply(ctx context.Context, room int) {
	l := &k.hdr.Lists
	head, marks := k.reply.Bytes(), k.reply.Marks()
	how := plan.ForReply(k.into, l, marks, room, len(head), k.msg.Len)
	if how.Kind == plan.Refused && k.exposure != nil && k.hdr.Version == Version1 {
		how = plan.Exposed(how, marks, k.segsOf, maxExposed, room, len(head), k.msg.Len)
	}
	k.into = how.Into
	if how.Kind == plan.Refused {
		k.c.s.cfg.Log.Warn("a reply exceeds what its client provided for", "client", k.c.peer,
			"xid", k.hdr.XID, "bytes", k.reply.Len())
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
		k.c.s.count.longReplies.Add(1)
	case plan.Read, plan.ReadLong:
		l.Reply.Fill(0)
		if reply.Lists.Read, err = k.expose(ctx, how, headSeg, marks); err != nil {
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
		k.c.s.count.readReplies.Add(1)
	default:
		l.Reply.Fill(0)
		body = k.msg.Slice(0, room+len(head))
		msg = k.gather(body, room, marks, how.Into)
		if len(msg) > k.c.s.dev.Caps().MaxSGE {
			msg = k.local(k.insert(body.Len, room, marks, how.Into))
		}
	}
	send := verbs.SendWR{Op: verbs.OpSend, Local: msg}
	if rkey, ok := k.invalidatable(); ok {
		send.Op, send.RKey = verbs.OpSendInvalidate, rkey
		k.c.s.count.invalidations.Add(1)
	}
	k.c.s.count.replies.Add(1)
	k.send(ctx, reply, send)
	if len(reply.Lists.Read) > 0 {
		k.published(ctx)
	}
}

// segsOf is the number of segments of a payload of the reply.
func (k *serverCall) segsOf(m xdr.Mark) (n int) {
	for _, s := range k.payloads[m.Index] {
		if s.Len > 0 {
			n++
		}
	}
	return n
}

// invalidatable is the key that the Send of the reply is to invalidate: the one
// that a call of version 2 names for that; with version 1, the only one that
// the call came with, if the client takes that at all.
func (k *serverCall) invalidatable() (rkey uint32, ok bool) {
	if k.hdr.Version == Version2 {
		rkey = k.hdr.Invalidatable()
		return rkey, rkey != 0
	}
	k.keys = k.hdr.Lists.Keys(k.keys[:0])
	if !k.c.invalidate || len(k.keys) != 1 {
		return 0, false
	}
	return k.keys[0], true
}

// sendError answers with RDMA_ERROR (RFC 8166 section 4.5; the draft, section
// 7.2.4).
func (k *serverCall) sendError(ctx context.Context, to *wire.Header, code wire.ErrCode, fault wire.Fault) {
	if code == wire.ErrVers {
		k.c.s.count.versErrors.Add(1)
	} else {
		k.c.s.count.chunkErrors.Add(1)
	}
	k.wrs = k.wrs[:0]
	known := k.c.s.cfg.Versions
	e := &wire.Error{
		Header: wire.Header{XID: to.XID, Version: to.Version, Proc: wire.ProcError},
		Code:   code, Low: known.Low, High: known.High, Fault: fault,
	}
	k.head.Reset(k.buf.Bytes(), nil)
	e.Append(&k.head)
	k.send(ctx, e, verbs.SendWR{Op: verbs.OpSend, Local: k.local(k.buf.Slice(0, len(k.head.Bytes())))})
}

// send gives the receive buffer back, encodes m with the grant at the start of
// buf, and posts wrs with the Send after them.
func (k *serverCall) send(ctx context.Context, m wire.Message, send verbs.SendWR) {
	c := k.c
	grant := c.s.grant(k.asked)
	// What the client may send by reason of this reply must find a receive.
	err := k.repost()
	if err == nil {
		err = c.postReceives(c.conn, min(grant+c.otherReceives(), c.receives()))
	}
	if err != nil {
		k.abandon(ctx, err)
		return
	}
	grant = max(1, grant-c.exposer.out()) // RFC 5666 section 11
	c.granted.Store(int32(grant))
	m.Fixed().Credits = uint32(grant)
	k.head.Reset(k.buf.Bytes(), nil)
	m.Append(&k.head)
	c.s.count.sent.Add(uint64(send.Local.Len()))
	k.wrs = append(k.wrs, send)
	k.refs.Add(1) // the completion's
	if err := c.post(ctx, k.id, k.wrs, k.wc[:]); err != nil {
		k.abandon(ctx, err)
	}
}

// post posts wrs for the call of that number, in groups of which each has a
// token. The last completion of a group gives the token back.
func (c *serverConn) post(ctx context.Context, id int, wrs []verbs.SendWR, wc []verbs.Completion) error {
	for len(wrs) > 0 {
		g := wrs[:min(len(wrs), groupWRs)]
		wrs = wrs[len(g):]
		for i := range g {
			g[i].ID = uint64(id)
		}
		g[len(g)-1].Signaled = true
		select {
		case c.sends <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.gone:
			return errLinkDead
		}
		c.busy.Add(1)
		n, reaped, err := c.conn.PostAndReap(g, wc)
		for _, w := range wc[:reaped] {
			c.sent(w)
		}
		if err != nil {
			return fmt.Errorf("work request %d of %d: %w", n, len(g), err)
		}
	}
	return nil
}

// placeHead makes the head of the reply stand in registered memory and returns
// where: in msg after the header, or, if it outgrew that or the header will, in
// memory leased for the call. When there is none, a reply that has nothing in the
// call's own gives that back, and waits.
func (k *serverCall) placeHead(ctx context.Context, head []byte, room int, how plan.Reply) (mem.Seg, error) {
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
func (k *serverCall) gather(head mem.Seg, shift int, marks []xdr.Mark, into []int) mem.Vec {
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
			k.sg = append(k.sg, k.c.pad(n))
		}
	}
	if at < head.Len {
		k.sg = append(k.sg, head.Slice(at, head.Len-at))
	}
	return k.sg[start:len(k.sg):len(k.sg)]
}

// insert is gather for a message of more pieces than the device takes: it
// moves the payloads into msg, of which n bytes are in use, from the last on.
func (k *serverCall) insert(n, shift int, marks []xdr.Mark, into []int) mem.Seg {
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
func (k *serverCall) addWrites(c wire.Chunk, v mem.Vec) {
	caps := k.c.s.dev.Caps()
	left, off := v.Len(), 0
	for _, s := range c {
		for done := 0; done < int(s.Length) && left > 0; {
			n := min(int(s.Length)-done, left, caps.MaxMessage)
			start := len(k.sg)
			k.sg = v.Slice(k.sg, off, n)
			if len(k.sg)-start > caps.MaxSGE {
				k.sg = k.sg[:start+caps.MaxSGE]
				n = mem.Vec(k.sg[start:]).Len()
			}
			k.wrs = append(k.wrs, verbs.SendWR{
				Op: verbs.OpWrite, RKey: s.Handle, Addr: s.Offset + uint64(done),
				Local: k.sg[start:len(k.sg):len(k.sg)],
			})
			k.c.s.count.writes.Add(1)
			k.c.s.count.bytesWritten.Add(uint64(n))
			off, done, left = off+n, done+n, left-n
		}
	}
}
