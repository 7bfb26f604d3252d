package rpcrdma

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// maxReplyPayloads bounds the payloads of one reply.
const maxReplyPayloads = 32

// serverCall is one call, from the time a worker takes it up until its reply's
// Send has completed; then it is used again. Between, it belongs to the worker,
// and all memory that work requests name to it.
type serverCall struct {
	c  *serverConn
	id int
	// msg takes the reply's message: as much of buf as the client receives.
	// scratch takes small payloads of it, ctl messages about properties, with
	// ctlUsed bytes of which those sent with this call are taken.
	buf, msg, scratch, ctl mem.Seg
	ctlUsed                int

	recv  int // the receive buffer that holds the message
	hdr   wire.Msg
	pad   *rfc5666.Alignment // of what follows the header
	rep   wire.Msg
	asked uint32 // credits

	// lease is this call's transfer memory: the chunks pulled first, then,
	// from spare on, what the handler leases. used counts into scratch. extra
	// was leased because more was asked for than the client's chunks hold.
	lease       mem.Seg
	spare, used int
	extra       []mem.Seg

	plan   []plan.Pulled
	chunks []chunkData
	layout received
	reads  atomic.Int32  // RDMA Reads outstanding, and one while more are to come
	read   chan struct{} // of capacity 1: told when reads reaches zero

	args     xdr.Reader
	reply    xdr.Writer
	head     xdr.Writer
	req      transport.Request
	lend     func(int) (mem.Seg, error) // leasePayload
	handled  bool
	payloads [maxReplyPayloads]mem.Vec
	added    int

	into []int
	wrs  []verbs.SendWR
	// exposure is nil unless replies by read chunks are configured.
	exposure *exposure
	wc       [4]verbs.Completion // reaped while posting
	sg       mem.Vec             // backs the wrs' Local
	keys     []uint32
	recvWR   [1]verbs.RecvWR

	// refs is two once a reply is being posted: the worker's, and the
	// completion's; and one more for an RDMA_DONE to come. A call abandoned because the connection is ending keeps
	// its memory until the connection has ended.
	refs      atomic.Int32
	abandoned bool // the worker's
}

// newServerCall makes a call of buf, which has callBytes bytes.
func newServerCall(c *serverConn, id int, buf mem.Seg) *serverCall {
	k := &serverCall{
		c: c, id: id,
		buf: buf.Slice(0, c.s.cfg.InlineOut), scratch: buf.Slice(c.s.cfg.InlineOut, c.s.cfg.InlineOut),
		ctl:  buf.Slice(2*c.s.cfg.InlineOut, ctlBytes),
		read: make(chan struct{}, 1),
	}
	k.req = transport.Request{
		Transport: c.s.dev.Caps().Provider, Peer: c.peer,
		Args: &k.args, Reply: &k.reply,
		AddPayload: k.addPayload,
	}
	k.lend = k.leasePayload
	if c.exposer != nil {
		k.exposure = &exposure{}
	}
	return k
}

// run carries out the call in a.
func (k *serverCall) run(ctx context.Context, a arrival) {
	k.recv, k.ctlUsed = a.recv, 0
	k.refs.Store(1)
	defer func() {
		if !k.abandoned {
			k.unref()
		}
	}()
	in := k.c.recvBuf(a.recv).Bytes()[:a.n]
	h, err := wire.ParseHeader(in, k.c.s.cfg.Versions)
	k.hdr.Header, k.asked, k.pad = h, h.Credits, nil
	k.setRoom()
	at := 0
	var other wire.Message
	switch {
	case err != nil:
	case h.Proc == wire.ProcMsg || h.Proc == wire.ProcNoMsg:
		at, err = k.hdr.Parse(in)
	case h.Proc == wire.ProcMsgP:
		at, k.pad, err = rfc5666.Parse(&k.hdr, in)
	default:
		other, _, err = wire.Parse(in, AllVersions)
	}
	if bad, ok := err.(*wire.ParseError); ok {
		k.refuse(ctx, bad, a.n)
		return
	}
	if h.Version == Version2 {
		k.c.props.begin(0)
		if err := k.sendDue(ctx); err != nil {
			k.abandon(ctx, err)
			return
		}
	}
	switch m := other.(type) {
	case nil:
		k.call(ctx, in, at)
	case *wire.Error:
		switch {
		case h.Version == Version2 && k.c.props.refused(h.XID):
			k.ignore(ctx)
		case k.c.back != nil && k.c.back.failed(ctx, k, m):
		default:
			k.ignore(ctx)
		}
	case *wire.Done:
		if k.exposure != nil {
			k.done(ctx)
		} else {
			k.ignore(ctx) // RFC 8166 section 4.6.2
		}
	case *wire.Optional:
		// None is known here; replies are not answered.
		if m.Direction == wire.DirCall {
			k.sendError(ctx, &h, wire.ErrInvalOption, wire.Fault{})
		} else {
			k.ignore(ctx)
		}
	default: // about properties: note has taken it
		k.dismiss(ctx)
	}
}

// refuse deals with a message of n bytes that cannot be parsed. RFC 8166 section 4.5 has messages of less than 28
// bytes discarded. As Linux does, we answer as soon as there is an XID: a client that counts on a reply would wait for
// it forever.
func (k *serverCall) refuse(ctx context.Context, bad *wire.ParseError, n int) {
	switch {
	case !bad.Fixed:
		k.abandon(ctx, bad)
	case bad.Answer == 0 && k.c.back != nil && k.c.back.unreadable(ctx, k, bad, n):
	case bad.Answer == 0:
		k.ignore(ctx)
	default:
		k.sendError(ctx, &bad.Header, bad.Answer, bad.Fault)
	}
}

// call carries out the call in in, of which at bytes are its header, unless it is a reply.
func (k *serverCall) call(ctx context.Context, in []byte, at int) {
	switch reply, awaited := k.isReply(ctx, in, at); {
	case awaited:
		return
	case reply:
		k.ignore(ctx)
		return
	}
	if k.c.back != nil {
		k.c.back.version.Store(k.hdr.Version)
	}
	k.c.s.count.calls.Add(1)
	if err := k.admit(ctx, in, at); err != nil {
		k.giveUp(ctx, err)
		return
	}
	if err := k.checkRPC(); err != nil {
		k.giveUp(ctx, err)
		return
	}
	k.serve(ctx)
}

// giveUp ends a call that gets no reply: with an error when that is the client's
// fault, silently when the connection is ending.
func (k *serverCall) giveUp(ctx context.Context, err error) {
	if !errors.Is(err, transport.ErrProtocol) {
		k.abandon(ctx, err)
		return
	}
	k.c.s.cfg.Log.Debug("call refused", "client", k.c.peer, "xid", k.hdr.XID, "err", err)
	why := plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "")
	errors.As(err, &why)
	k.sendError(ctx, &k.hdr.Header, why.Code, why.Fault)
}

// abandon leaves the call to the end of the connection, and brings that about
// unless it has begun.
func (k *serverCall) abandon(ctx context.Context, err error) {
	k.abandoned = true
	if ctx.Err() == nil {
		k.c.fail(err)
	}
}

// admit checks the chunks of the call that came in in, of which header bytes are
// the transport header, leases the memory that it and its reply will need, pulls
// what is to be pulled and sets args to its first byte. All memory is leased at
// once, so that calls never wait for each other while they hold some.
func (k *serverCall) admit(ctx context.Context, in []byte, header int) error {
	l, stream := &k.hdr.Lists, in[header:]
	limit := k.c.s.cfg.MaxPayload + headRoom
	var pull int
	var err error
	if k.plan, pull, err = plan.Pull(k.plan[:0], &k.hdr, len(stream), limit); err != nil {
		return err
	}
	if n := len(k.plan); n > plan.MaxReadChunks {
		return plan.Refuse(wire.ErrReadChunks, wire.Fault{Max: plan.MaxReadChunks}, "%d read chunks", n)
	}
	if n := k.hdr.ReturnedLen(); n > k.msg.Len {
		return plan.BadChunk("chunk lists whose return takes %d bytes of %d", n, k.msg.Len)
	}
	if pull > 0 && !k.c.readable.Load() {
		return plan.Refuse(wire.ErrReadChunks, wire.Fault{}, "read chunk on a connection that allows no RDMA Read")
	}
	k.spare = longbuf.RoundUp(pull, longbuf.Unit)
	need := l.Reply.Len()
	for _, w := range l.Write {
		need += w.Len()
	}
	k.tally(pull > 0)
	if n := k.spare + min(need, limit); n > 0 {
		if k.lease, err = k.c.s.pool.Lease(ctx, nil, &k.c.acct, n); err != nil {
			return err
		}
	}
	if err := k.pull(ctx); err != nil {
		return err
	}
	k.chunks = k.chunks[:0]
	for _, p := range k.plan {
		k.chunks = append(k.chunks, chunkData{pos: p.Pos, data: k.lease.Slice(p.Off, p.Len).Bytes()})
	}
	if k.hdr.Proc == wire.ProcNoMsg {
		k.layout = received{chunks: k.chunks[1:]}
		k.args.Reset(k.chunks[0].data, nil)
	} else {
		k.layout = received{chunks: k.chunks, padding: k.pad}
		k.args.Reset(stream, nil)
	}
	k.layout.layOut(&k.args)
	return nil
}

// tally counts how the call came.
func (k *serverCall) tally(pulls bool) {
	n, l := &k.c.s.count, &k.hdr.Lists
	switch {
	case k.hdr.Proc == wire.ProcNoMsg:
		n.positionZero.Add(1)
		if len(k.plan) > 1 {
			n.readChunks.Add(1)
		}
	case pulls:
		n.readChunks.Add(1)
	default:
		n.inline.Add(1)
	}
	if len(l.Write) > 0 {
		n.writeChunks.Add(1)
	}
	if l.Reply != nil {
		n.replyChunks.Add(1)
	}
}

// isReply reports whether the message in in, of which header bytes are the
// transport's, is the reply to a backward call: then it is handed to that call,
// if one awaits it.
func (k *serverCall) isReply(ctx context.Context, in []byte, header int) (reply, awaited bool) {
	h := &k.hdr
	xid, isReply, ok := oncrpc.PeekXID(in[header:])
	// What of version 2 is said to be a reply is one, be it good or bad.
	reply = ok && isReply && xid == h.XID && h.Proc != wire.ProcNoMsg || h.Version == Version2
	if h.Version == Version2 && h.Direction == wire.DirCall || h.Version == Version1 && !reply {
		return false, false
	}
	return true, k.c.back != nil && k.c.back.reply(ctx, k, header, len(in))
}

// checkRPC looks at the first words of the RPC message: its XID must be the
// header's (RFC 8166 section 4.5.2).
func (k *serverCall) checkRPC() error {
	peek := k.args
	xid := peek.Uint32()
	peek.Uint32()
	switch {
	case peek.Err() != nil:
		return plan.BadChunk("RPC message cut short: %v", peek.Err())
	case xid != k.hdr.XID:
		return plan.BadChunk("XID %#x in the RPC message, %#x in the header", xid, k.hdr.XID)
	}
	return nil
}

var errNoReply = errors.New("the handler gave no reply")

// callHandler is the handler of one call; it notes that the call reached it.
type callHandler serverCall

func (h *callHandler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	h.handled = true
	if q.Prog == rfc5666.ConfigProgram {
		return h.c.configure(ctx, q)
	}
	return h.c.s.handler.Serve(ctx, q)
}

// serve runs the handler and sends the reply.
func (k *serverCall) serve(ctx context.Context) {
	room := k.hdr.ReturnedLen()
	k.added, k.used = 0, 0
	k.reply.Reset(k.msg.Slice(room, k.msg.Len-room).Bytes(), k.payloads[:])
	q := &k.req
	*q = transport.Request{
		Transport: q.Transport, Peer: q.Peer, Args: q.Args, Reply: q.Reply,
		Lease: k.lend, AddPayload: q.AddPayload,
	}
	if k.c.back != nil {
		q.Back = k.c.back
	}
	if k.exposure != nil && k.hdr.Version == Version1 {
		q.Lease = func(n int) (mem.Seg, error) { return k.leaseUnoffered(ctx, n) }
	}
	k.handled = false
	switch ok := oncrpc.Serve(ctx, (*callHandler)(k), q); {
	case ok:
		k.sendReply(ctx, room)
	case k.handled:
		k.abandon(ctx, errNoReply)
	default:
		k.giveUp(ctx, plan.BadChunk("RPC header malformed"))
	}
}

// ignore leaves a message unanswered that is of no use.
func (k *serverCall) ignore(ctx context.Context) {
	k.c.s.count.ignored.Add(1)
	k.dismiss(ctx)
}

// dismiss gives the receive buffer back, and that is all.
func (k *serverCall) dismiss(ctx context.Context) {
	if err := k.repost(); err != nil {
		k.abandon(ctx, err)
	}
}

// repost makes the receive buffer ready for the client's next message. What
// was borrowed from it is void.
func (k *serverCall) repost() error {
	k.recvWR[0] = k.c.receive(k.recv)
	_, err := k.c.conn.PostRecv(k.recvWR[:])
	return err
}

// unref ends the worker's, or the completion's, part in the call. The last one
// gives its memory back and frees it for the next.
func (k *serverCall) unref() {
	if k.refs.Add(-1) == 0 {
		k.release()
		k.c.free <- k
	}
}

// release gives back what the call has for the time that it lasts.
func (k *serverCall) release() {
	k.giveBack()
	clear(k.payloads[:k.added])
	k.added = 0
	k.sg = k.sg[:0]
}
