package rpcrdma

import (
	"context"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// backCall serves calls of the server's on a link (RFC 8167), one at a time:
// there are as many as credits granted. Chunks are not served in this direction
// (section 5.3), so calls and replies are inline.
type backCall struct {
	sender
	l *link
	// id is the ID of its Sends.
	id uint64
	// msg, which is as much of buf as the server receives, takes the reply, lent
	// what the handler leases.
	buf, msg, lent mem.Seg
	used           int
	sent           chan struct{} // of capacity 1

	hdr      Header
	args     xdr.Reader
	reply    xdr.Writer
	head     xdr.Writer
	payloads [maxReplyPayloads]mem.Vec
	added    int
	local    [1]mem.Seg
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

// run carries out the call in a.
func (k *backCall) run(ctx context.Context, a arrival) {
	l := k.l
	in := l.bufs[a.recv].Bytes()[:a.n]
	at, err := ParseHeader(in, &k.hdr)
	if err != nil {
		panic("rpcrdma: a header that the reaper has parsed does not parse") // the buffer is ours
	}
	h := Header{XID: k.hdr.XID, Version: k.hdr.Version, Credits: uint32(l.d.cfg.CallbackCredits), Proc: Msg, V2: V2{Direction: DirReply}}
	room := emptyHeaderLen(h.Version)
	k.msg = k.buf.Slice(0, l.sendInline())
	n, lost := 0, false
	if k.acceptable(in[at:]) {
		n, lost = k.serve(ctx, in, at, room)
	}
	if lost {
		l.fail(errNoReply)
		return
	}
	if n == 0 {
		h.Proc, h.Err = Error, ErrChunk
	}
	k.head.Reset(k.msg.Bytes(), nil)
	h.Append(&k.head)
	k.send(ctx, a, max(n, len(k.head.Bytes())))
}

// acceptable tells whether a call can be served: it has no chunks, and the XID
// of its header.
func (k *backCall) acceptable(body []byte) bool {
	l := &k.hdr.Lists
	xid, reply, ok := oncrpc.PeekXID(body)
	return k.hdr.Proc != NoMsg && len(l.Read)+len(l.Write) == 0 && l.Reply == nil && ok && !reply && xid == k.hdr.XID
}

// serve runs the handler on the call in in. It returns how long the message
// with the reply is, which stands in k.msg behind room for the header, or 0
// when there can be none; lost is set when the handler gave none.
func (k *backCall) serve(ctx context.Context, in []byte, at, room int) (n int, lost bool) {
	stream := k.msg.Slice(room, k.msg.Len-room).Bytes()
	k.args.ResetChunks(in[at:], 0, nil)
	k.args.SetPadding(k.hdr.padding(at))
	k.reply.Reset(stream, k.payloads[:])
	k.used, k.added = 0, 0
	handled := false
	q := transport.Request{
		Transport: k.l.d.cfg.Device.Caps().Provider, Peer: k.l.conn.RemoteAddr().Addr().Unmap().String(),
		Args: &k.args, Reply: &k.reply, Lease: k.lease, AddPayload: k.addPayload,
	}
	h := handlerFunc(func(ctx context.Context, q *transport.Request) transport.AcceptStat {
		handled = true
		return k.l.d.cfg.Callbacks.Serve(ctx, q)
	})
	if !oncrpc.Serve(ctx, h, &q) {
		return 0, handled
	}
	if k.reply.Len() > len(stream) {
		return 0, false
	}
	return room + layOut(stream, k.reply.Bytes(), k.reply.Marks(), k.payloads[:], 0, true), false
}

type handlerFunc func(ctx context.Context, q *transport.Request) transport.AcceptStat

func (f handlerFunc) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	return f(ctx, q)
}

// lease is transport.Request.Lease: more than fits an inline reply is no use.
func (k *backCall) lease(n int) (mem.Seg, error) {
	if n < 0 || n > k.lent.Len-k.used {
		return mem.Seg{}, errTooLarge
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

// send posts the receive again, and then the n bytes in k.msg.
func (k *backCall) send(ctx context.Context, a arrival, n int) {
	l := k.l
	l.d.stats.callbacks.Add(1)
	if _, err := l.conn.PostRecv([]verbs.RecvWR{l.receive(a.recv)}); err != nil {
		l.fail(err)
		return
	}
	k.local[0] = k.msg.Slice(0, n)
	k.wrs = append(k.wrs[:0], verbs.SendWR{ID: k.id, Op: verbs.OpSend, Signaled: true, Local: k.local[:]})
	if _, err := l.post(ctx, &k.sender, nil); err != nil {
		l.fail(err)
		return
	}
	l.arm(ctx, &k.sender)
	defer k.stall.Stop()
	select {
	case <-k.sent:
	case <-l.done:
	}
}
