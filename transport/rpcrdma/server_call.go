package rpcrdma

import (
	"context"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport/crew"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/responder"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// serverCall is one call, from the time a member of the crew takes it up until its reply's
// Send has completed; then it is used again. Between, it belongs to that member.
type serverCall struct {
	responder.Call
	c    *serverConn
	id   int
	recv int // the receive buffer that holds the message
	// ctl takes messages about properties, with ctlUsed bytes of which those sent with this call are taken.
	ctl     mem.Seg
	ctlUsed int
	asked   uint32 // credits

	reads atomic.Int32  // RDMA Reads outstanding, and one while more are to come
	done  chan struct{} // of capacity 1: has a token when reads has reached zero

	// exposure is nil unless replies by read chunks are configured.
	exposure *exposure
	wc       [4]verbs.Completion // reaped while posting
	// turn is that of the member that carries out the call; more says that another call follows at once.
	turn   crew.Turn
	more   bool
	recvWR [1]verbs.RecvWR

	// refs is two once a reply is being posted: the member's, and the
	// completion's; and one more for an RDMA_DONE to come. A call abandoned because the connection is ending keeps
	// its memory until the connection has ended.
	refs      atomic.Int32
	abandoned bool // the member's
}

// newServerCall makes a call of buf, which has callBytes bytes.
func newServerCall(c *serverConn, id int, buf mem.Seg) *serverCall {
	most := c.s.cfg.InlineOut
	k := &serverCall{c: c, id: id, ctl: buf.Slice(2*most, ctlBytes), done: make(chan struct{}, 1)}
	var opens responder.Opener
	if c.exposer != nil {
		k.exposure, opens = &exposure{}, k
	}
	k.Init(k, &c.rules, opens, buf.Slice(0, most), buf.Slice(most, most))
	return k
}

// run carries out the call in a.
func (k *serverCall) run(ctx context.Context, a arrival) {
	k.recv, k.ctlUsed = a.recv, 0
	k.refs.Store(1)
	k.reads.Store(1)
	defer func() {
		if !k.abandoned {
			k.unref()
		}
	}()
	in := k.c.recvBuf(a.recv).Bytes()[:a.n]
	h, err := wire.ParseHeader(in, k.c.s.cfg.Versions)
	k.Hdr.Header, k.asked, k.Pad = h, h.Credits, nil
	k.SetRoom(k.c.sendInline(h.Version)) // as much as the client's receives are known to be
	at := 0
	var other wire.Message
	switch {
	case err != nil:
	case h.Proc == wire.ProcMsg || h.Proc == wire.ProcNoMsg:
		at, err = k.Hdr.Parse(in)
	case h.Proc == wire.ProcMsgP:
		at, k.Pad, err = rfc5666.Parse(&k.Hdr, in)
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
			k.Abandon(ctx, err)
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
			k.doneWith(ctx)
		} else {
			k.ignore(ctx) // RFC 8166 section 4.6.2
		}
	case *wire.Optional:
		// None is known here; replies are not answered.
		if m.Direction == wire.DirCall {
			k.SendError(ctx, &h, wire.ErrInvalOption, wire.Fault{})
		} else {
			k.ignore(ctx)
		}
	default: // about properties: learn has taken it
		k.dismiss(ctx)
	}
}

// refuse deals with a message of n bytes that cannot be parsed. RFC 8166 section 4.5 has messages of less than 28
// bytes discarded. As Linux does, we answer as soon as there is an XID: a client that counts on a reply would wait for
// it forever.
func (k *serverCall) refuse(ctx context.Context, bad *wire.ParseError, n int) {
	switch {
	case !bad.Fixed:
		k.Abandon(ctx, bad)
	case bad.Answer == 0 && k.c.back != nil && k.c.back.unreadable(ctx, k, bad, n):
	case bad.Answer == 0:
		k.ignore(ctx)
	default:
		k.SendError(ctx, &bad.Header, bad.Answer, bad.Fault)
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
		k.c.back.version.Store(k.Hdr.Version)
	}
	k.c.s.count.calls.Add(1)
	if k.bulk() {
		k.c.crew.Relieve()
	}
	k.CarryOut(ctx, in, at)
}

// maxHere is the most data, in bytes, of a call that may be carried out before others are received.
const maxHere = 16 << 10

// bulk reports whether the call moves more than that, or needs RDMA Reads, for whose completions somebody must receive.
func (k *serverCall) bulk() bool {
	l := &k.Hdr.Lists
	if len(l.Read) > 0 {
		return true
	}
	n := l.Reply.Len()
	for _, w := range l.Write {
		n += w.Len()
	}
	return n > maxHere
}

// Abandon leaves the call to the end of the connection, and brings that about
// unless it has begun.
func (k *serverCall) Abandon(ctx context.Context, err error) {
	k.abandoned = true
	if ctx.Err() == nil {
		k.c.fail(err)
	}
}

// isReply reports whether the message in in, of which header bytes are the
// transport's, is the reply to a backward call: then it is handed to that call,
// if one awaits it.
func (k *serverCall) isReply(ctx context.Context, in []byte, header int) (reply, awaited bool) {
	h := &k.Hdr
	xid, isReply, ok := oncrpc.PeekXID(in[header:])
	// What of version 2 is said to be a reply is one, be it good or bad.
	reply = ok && isReply && xid == h.XID && h.Proc != wire.ProcNoMsg || h.Version == Version2
	if h.Version == Version2 && h.Direction == wire.DirCall || h.Version == Version1 && !reply {
		return false, false
	}
	return true, k.c.back != nil && k.c.back.reply(ctx, k, header, len(in))
}

// ignore leaves a message unanswered that is of no use.
func (k *serverCall) ignore(ctx context.Context) {
	k.c.s.count.ignored.Add(1)
	k.dismiss(ctx)
}

// dismiss gives the receive buffer back, and that is all.
func (k *serverCall) dismiss(ctx context.Context) {
	if err := k.repost(); err != nil {
		k.Abandon(ctx, err)
	}
}

// repost makes the receive buffer ready for the client's next message. What
// was borrowed from it is void.
func (k *serverCall) repost() error {
	k.recvWR[0] = k.c.receive(k.recv)
	_, err := k.c.conn.PostRecv(k.recvWR[:])
	return err
}

// unref ends the member's, or the completion's, part in the call. The last one
// gives its memory back and frees it for the next.
func (k *serverCall) unref() {
	if k.refs.Add(-1) == 0 {
		k.Release()
		k.c.free <- k
	}
}
