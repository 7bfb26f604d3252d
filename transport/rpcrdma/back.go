package rpcrdma

import (
	"context"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// backCall serves calls of the server's on a link (RFC 8167), one at a time:
// there are as many as credits granted. In version 1 chunks are not served in
// this direction (section 5.3), so calls and replies are inline; back_long.go has
// what version 2 adds.
type backCall struct {
	sender
	l *link
	// id is the ID of its work requests.
	id uint64
	// msg, which is as much of buf as the server receives, takes the reply, lent
	// what the handler leases. longCall and longReply are empty unless version 2
	// may be spoken.
	buf, msg, lent, longCall, longReply mem.Seg
	used                                int
	sent                                chan struct{} // of capacity 1

	hdr      wire.Msg
	args     xdr.Reader
	plan     []plan.Pulled
	chunks   []chunkData
	layout   received
	reply    xdr.Writer
	head     xdr.Writer
	payloads [maxReplyPayloads]mem.Vec
	added    int
	local    []mem.Seg
}

// runBack serves the calls that the reaper hands over, until the link ends. It
// is one of l.users.
func (k *backCall) runBack(ctx context.Context) {
	defer k.l.users.Done()
	for {
		select {
		case a := <-k.l.calledBack:
			k.run(ctx, a)
		case <-k.l.done:
			return
		}
	}
}

// call is a call of the server's as the reaper has parsed it. Nothing is parsed a second time: with region keys
// (verbs.Caps) the server can write to the receive buffer.
type call struct {
	arrived
	hdr wire.Msg
}

// run carries out the call a.
func (k *backCall) run(ctx context.Context, a call) {
	l := k.l
	in := l.bufs[a.buf].Bytes()[:a.len]
	k.hdr = a.hdr
	k.msg, k.wrs, k.local = k.buf.Slice(0, l.sendInline()), k.wrs[:0], k.local[:0]
	h := wire.Msg{
		Header: wire.Header{XID: k.hdr.XID, Version: k.hdr.Version, Credits: uint32(l.d.cfg.CallbackCredits), Proc: wire.ProcMsg},
		Lists:  wire.Lists{Write: k.hdr.Lists.Write, Reply: k.hdr.Lists.Reply}, Direction: wire.DirReply,
	}
	n, why, lost := 0, k.accept(ctx, in, a), false
	if why == nil {
		n, why, lost = k.serve(ctx, &h)
	}
	if lost {
		l.fail(errNoReply)
		return
	}
	k.head.Reset(k.msg.Bytes(), nil)
	if why != nil {
		// Of a call that is not carried out nothing is used, its keys neither.
		e := wire.Error{Header: h.Header, Code: why.Code, Fault: why.Fault}
		e.Proc = wire.ProcError
		e.Append(&k.head)
		k.send(ctx, a.buf, len(k.head.Bytes()), 0)
		return
	}
	h.Append(&k.head)
	k.send(ctx, a.buf, max(n, len(k.head.Bytes())), k.hdr.Invalidatable())
}

// accept makes args ready for the call in in, or tells why it cannot be served:
// in version 1, because it has chunks, or has not the XID of its header.
func (k *backCall) accept(ctx context.Context, in []byte, a call) *plan.Refusal {
	l := &k.hdr.Lists
	if k.hdr.Version == Version2 {
		if why := k.fetch(ctx, in[a.header:]); why != nil {
			return why
		}
	} else if k.hdr.Proc == wire.ProcNoMsg || len(l.Read)+len(l.Write) > 0 || l.Reply != nil {
		return plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "chunks in the backward direction")
	} else {
		k.args.Reset(in[a.header:], nil)
		k.layout = received{padding: a.padding}
		k.layout.layOut(&k.args)
	}
	peek := k.args
	if xid, kind := peek.Uint32(), peek.Uint32(); peek.Err() != nil || xid != k.hdr.XID || kind != 0 {
		return plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "no call with the header's XID")
	}
	return nil
}

// serve runs the handler. It returns how long the message with the reply is,
// which stands in k.msg behind the header h, or why there can be none; lost is
// set when the handler gave none.
func (k *backCall) serve(ctx context.Context, h *wire.Msg) (n int, why *plan.Refusal, lost bool) {
	room := k.hdr.ReturnedLen()
	if room > k.msg.Len {
		return 0, plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "chunk lists whose return takes %d bytes", room), false
	}
	stream := k.msg.Slice(room, k.msg.Len-room)
	if h.Lists.Reply != nil {
		stream = k.longReply
	}
	for _, w := range h.Lists.Write {
		w.Fill(0) // unused: what would go into them is in the stream
	}
	k.reply.Reset(stream.Bytes(), k.payloads[:])
	k.used, k.added = 0, 0
	handled := false
	q := transport.Request{
		Transport: k.l.d.cfg.Device.Caps().Provider, Peer: k.l.conn.RemoteAddr().Addr().Unmap().String(),
		Args: &k.args, Reply: &k.reply, Lease: k.lease, AddPayload: k.addPayload,
	}
	handler := handlerFunc(func(ctx context.Context, q *transport.Request) transport.AcceptStat {
		handled = true
		return k.l.d.cfg.Callbacks.Serve(ctx, q)
	})
	if !oncrpc.Serve(ctx, handler, &q) {
		return 0, plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "RPC header malformed"), handled
	}
	switch total := k.reply.Len(); {
	case total > max(maxBackLong, k.msg.Len):
		return 0, plan.Refuse(wire.ErrSystem, wire.Fault{}, "reply of %d bytes", total), false
	case total > stream.Len:
		return 0, plan.Refuse(wire.ErrReplyResource, wire.Fault{Needed: uint32(total)}, "reply of %d bytes", total), false
	}
	n = plan.LayOut(stream.Bytes(), k.reply.Bytes(), k.reply.Marks(), k.payloads[:], 0, true)
	if h.Lists.Reply != nil {
		return k.place(h, room, n)
	}
	return room + n, nil, false
}

type handlerFunc func(ctx context.Context, q *transport.Request) transport.AcceptStat

func (f handlerFunc) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	return f(ctx, q)
}

// lease is transport.Request.Lease: more than fits an inline reply is no use.
func (k *backCall) lease(n int) (mem.Seg, error) {
	if n < 0 || n > k.lent.Len-k.used {
		return mem.Seg{}, longbuf.ErrTooLarge
	}
	k.used += n
	return k.lent.Slice(k.used-n, n), nil
}

func (k *backCall) addPayload(v transport.Payload) int {
	if k.added == maxReplyPayloads {
		panic("rpcrdma: too many payloads in a reply")
	}
	k.payloads[k.added] = v
	k.added++
	return k.added - 1
}

// send posts the receive again, and then what is in k.wrs and the n bytes in
// k.msg, which invalidate a key unless it is zero.
func (k *backCall) send(ctx context.Context, buf, n int, invalidate uint32) {
	l := k.l
	l.d.stats.callbacks.Add(1)
	if _, err := l.conn.PostRecv([]verbs.RecvWR{l.receive(buf)}); err != nil {
		l.fail(err)
		return
	}
	k.local = append(k.local, k.msg.Slice(0, n))
	wr := verbs.SendWR{Op: verbs.OpSend, Local: k.local[len(k.local)-1:]}
	if invalidate != 0 {
		wr.Op, wr.RKey = verbs.OpSendInvalidate, invalidate
	}
	k.wrs = append(k.wrs, wr)
	k.carryOut(ctx)
}

// carryOut posts k.wrs and waits until they are done, groupWRs at a time: requests
// of which none is signaled may fill the send queue, and nobody be told that
// there is room again. It reports whether the link lives.
func (k *backCall) carryOut(ctx context.Context) bool {
	l, all := k.l, k.wrs
	defer func() { k.wrs = all[:0] }()
	for rest := all; len(rest) > 0; rest = rest[len(k.wrs):] {
		k.wrs = rest[:min(len(rest), groupWRs)]
		for i := range k.wrs {
			k.wrs[i].ID = k.id
		}
		k.wrs[len(k.wrs)-1].Signaled = true
		if _, err := l.post(ctx, &k.sender, nil); err != nil {
			l.fail(err)
			return false
		}
		if !k.done(ctx) {
			return false
		}
	}
	return true
}

// done waits for the completion asked for last. It reports whether the link lives.
func (k *backCall) done(ctx context.Context) bool {
	k.l.stall.set(ctx, &k.deadline)
	defer k.deadline.clear()
	k.l.turn.Expect()
	defer k.l.turn.Unexpect()
	select {
	case <-k.sent:
		return true
	case <-k.l.done:
		return false
	}
}
