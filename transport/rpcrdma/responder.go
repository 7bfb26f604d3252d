package rpcrdma

import (
	"context"
	"errors"
	"log/slog"

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

// rules are what differs between the responders of the two directions, and is the same for all calls on a connection: a
// server's connection serves the client's calls, a client's link those that the server makes (RFC 8167).
type rules struct {
	handler        transport.Handler
	provider, peer string
	// back makes calls on the peer; nil if there is no other direction.
	back transport.Backchannel
	// versions are those that ERR_VERS names.
	versions Versions
	log      *slog.Logger
	count    *serverCounters

	// chunks1: calls of version 1 may have chunks. No backward one may (RFC 8167 section 5.3).
	chunks1 bool
	// invalidate1: the peer takes Send with Invalidate in version 1.
	invalidate1 bool
	// unwritten: write chunks stay unused; what would go into them is in the stream.
	unwritten bool

	// maxPull bounds the bytes pulled for one call, which come in maxReadChunks at most; maxLease is the most that a handler
	// can lease in one piece, and maxReply the longest stream of a reply.
	maxPull, maxReadChunks, maxLease, maxReply int

	// maxSGE and maxMessage are the device's, zeros are padRoom bytes of registered memory.
	maxSGE, maxMessage int
	zeros              mem.Seg
}

// padRoom is the memory that padding is sent from.
const padRoom = 4

// host is what a call needs of the connection that it came by. All but lendNow and takeBack are called by the goroutine
// that carries out the call, in an order that the methods of served give.
type host interface {
	// readable reports whether the peer serves RDMA Reads.
	readable() bool
	// read posts the one RDMA Read in k.wrs when the peer serves one more, and awaitReads waits for those posted.
	read(ctx context.Context) error
	awaitReads(ctx context.Context) error
	// lend leases memory for a call and waits for it, lendNow does not wait. takeBack takes back what either has lent; no
	// work request may name it any more.
	lend(ctx context.Context, n int) (mem.Seg, error)
	lendNow(n int) (mem.Seg, error)
	takeBack(s mem.Seg)
	// grant posts the receive that the call came by again, and those for the credits that it returns.
	grant() (credits int, err error)
	// post posts k.wrs, the last of which is the Send that ends the call.
	post(ctx context.Context) error
	// abandon ends the connection, and leaves the call without an answer.
	abandon(ctx context.Context, err error)
}

// opener hooks replies by read chunks (RFC 5666 section 3.8) into a responder that is configured to send them.
type opener interface {
	// expose makes the requests that open the reply's read chunks, and the list that names them.
	expose(ctx context.Context, how plan.Reply, head mem.Seg, marks []xdr.Mark) ([]wire.ReadSegment, error)
	// published is called when such a reply has been posted.
	published(ctx context.Context)
}

// served is a call that is carried out, in whichever direction it goes. It belongs to one goroutine, and all memory that
// work requests name to it.
type served struct {
	host  host
	rules *rules
	// opens is nil unless replies by read chunks are configured.
	opens opener

	// msg takes the reply's message: as much of buf as the peer receives. scratch takes small payloads of it.
	buf, msg, scratch mem.Seg

	recv int // the receive buffer that holds the message
	hdr  wire.Msg
	pad  *rfc5666.Alignment // of what follows the header
	rep  wire.Msg

	// lease is this call's transfer memory: the chunks pulled first, then,
	// from spare on, what the handler leases. used counts into scratch. extra
	// was leased because more was asked for than the peer's chunks hold.
	lease       mem.Seg
	spare, used int
	extra       []mem.Seg

	plan   []plan.Pulled
	chunks []chunkData
	layout received

	args     xdr.Reader
	reply    xdr.Writer
	head     xdr.Writer
	req      transport.Request
	leases   func(int) (mem.Seg, error) // leasePayload
	handled  bool
	payloads [maxReplyPayloads]mem.Vec
	added    int

	into []int
	wrs  []verbs.SendWR
	sg   mem.Vec // backs the wrs' Local
	keys []uint32
}

// serveOn makes k a call on a connection with those rules. buf takes messages, and scratch small payloads.
func (k *served) serveOn(h host, r *rules, buf, scratch mem.Seg) {
	k.host, k.rules, k.buf, k.scratch = h, r, buf, scratch
	k.req.Args, k.req.Reply, k.req.AddPayload = &k.args, &k.reply, k.addPayload
	k.leases = k.leasePayload
}

// carryOut carries out the call in hdr, which came in in, of which header bytes are the transport's.
func (k *served) carryOut(ctx context.Context, in []byte, header int) {
	err := k.admit(ctx, in, header)
	if err == nil {
		err = k.checkRPC()
	}
	if err != nil {
		k.giveUp(ctx, err)
		return
	}
	k.serve(ctx)
}

// giveUp ends a call that gets no reply: with an error when that is the peer's
// fault, silently when the connection is ending.
func (k *served) giveUp(ctx context.Context, err error) {
	if !errors.Is(err, transport.ErrProtocol) {
		k.host.abandon(ctx, err)
		return
	}
	k.rules.log.Debug("call refused", "xid", k.hdr.XID, "err", err)
	why := plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "")
	errors.As(err, &why)
	k.sendError(ctx, &k.hdr.Header, why.Code, why.Fault)
}

// admit checks the chunks of the call that came in in, of which header bytes are
// the transport header, leases the memory that it and its reply will need, pulls
// what is to be pulled and sets args to its first byte. All memory is leased at
// once, so that calls never wait for each other while they hold some.
func (k *served) admit(ctx context.Context, in []byte, header int) error {
	r, l, stream := k.rules, &k.hdr.Lists, in[header:]
	if k.hdr.Version == Version1 && !r.chunks1 && (k.hdr.Proc == wire.ProcNoMsg || !l.Empty()) {
		return plan.BadChunk("chunks in a direction that has none")
	}
	var pull int
	var err error
	if k.plan, pull, err = plan.Pull(k.plan[:0], &k.hdr, len(stream), r.maxPull); err != nil {
		return err
	}
	if n := len(k.plan); n > r.maxReadChunks {
		return plan.Refuse(wire.ErrReadChunks, wire.Fault{Max: uint32(r.maxReadChunks)}, "%d read chunks", n)
	}
	if n := k.hdr.ReturnedLen(); n > k.msg.Len {
		return plan.BadChunk("chunk lists whose return takes %d bytes of %d", n, k.msg.Len)
	}
	if pull > 0 && !k.host.readable() {
		return plan.Refuse(wire.ErrReadChunks, wire.Fault{}, "read chunk on a connection that allows no RDMA Read")
	}
	k.spare = longbuf.RoundUp(pull, longbuf.Unit)
	need := l.Reply.Len()
	for _, w := range l.Write {
		need += w.Len()
	}
	k.tally(pull > 0)
	if k.lease, err = k.host.lend(ctx, k.spare+min(need, r.maxPull)); err != nil {
		return err
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
func (k *served) tally(pulls bool) {
	n, l := k.rules.count, &k.hdr.Lists
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

// checkRPC looks at the first words of the RPC message: its XID must be the
// header's (RFC 8166 section 4.5.2).
func (k *served) checkRPC() error {
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
type callHandler served

func (h *callHandler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	h.handled = true
	return h.rules.handler.Serve(ctx, q)
}

// serve runs the handler and sends the reply.
func (k *served) serve(ctx context.Context) {
	room := k.hdr.ReturnedLen()
	k.added, k.used = 0, 0
	k.reply.Reset(k.msg.Slice(room, k.msg.Len-room).Bytes(), k.payloads[:])
	q := &k.req
	*q = transport.Request{
		Transport: k.rules.provider, Peer: k.rules.peer, Args: q.Args, Reply: q.Reply,
		Lease: k.leases, AddPayload: q.AddPayload, Back: k.rules.back,
	}
	if k.opens != nil && k.hdr.Version == Version1 {
		q.Lease = func(n int) (mem.Seg, error) { return k.leaseUnoffered(ctx, n) }
	}
	k.handled = false
	switch ok := oncrpc.Serve(ctx, (*callHandler)(k), q); {
	case ok:
		k.sendReply(ctx, room)
	case k.handled:
		k.host.abandon(ctx, errNoReply)
	default:
		k.giveUp(ctx, plan.BadChunk("RPC header malformed"))
	}
}

// release gives back what the call has for the time that it lasts.
func (k *served) release() {
	k.giveBack()
	clear(k.payloads[:k.added])
	k.added = 0
	k.sg = k.sg[:0]
}
