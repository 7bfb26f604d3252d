package responder

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/layout"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// MaxPayloads bounds the payloads of one reply.
const MaxPayloads = 32

// Rules are what differs between the responders of the two directions, and is the same for all calls on a connection: a
// server's connection serves the client's calls, a client's link those that the server makes (RFC 8167).
type Rules struct {
	Handler        transport.Handler
	Provider, Peer string
	// Back makes calls on the peer; nil if there is no other direction.
	Back transport.Backchannel
	// Versions are those that ERR_VERS names.
	Versions wire.Versions
	Log      *slog.Logger
	Count    *Counters

	// Chunks1: calls of version 1 may have chunks. No backward one may (RFC 8167 section 5.3).
	Chunks1 bool
	// Invalidate1: the peer takes Send with Invalidate in version 1.
	Invalidate1 bool
	// Unwritten: write chunks stay unused; what would go into them is in the stream.
	Unwritten bool

	// MaxPull bounds the bytes pulled for one call, which come in MaxReadChunks at most; MaxLease is the most that a handler
	// can lease in one piece, MaxReply the longest stream of a reply, and MaxExposed the segments of a reply by read chunks.
	MaxPull, MaxReadChunks, MaxLease, MaxReply, MaxExposed int

	// MaxSGE and MaxMessage are the device's, Zeros are PadRoom bytes of registered memory.
	MaxSGE, MaxMessage int
	Zeros              mem.Seg
}

// PadRoom is the memory that padding is sent from.
const PadRoom = 4

// Counters count calls and replies, and what RDMA has moved for them. Sent is in bytes.
type Counters struct {
	Replies, Sent                          atomic.Uint64
	Inline, ReadChunks, PositionZero       atomic.Uint64
	WriteChunks, ReplyChunks, LongReplies  atomic.Uint64
	Invalidations, ReadReplies             atomic.Uint64
	VersErrors, ChunkErrors                atomic.Uint64
	Reads, Writes, BytesRead, BytesWritten atomic.Uint64
}

// Host is what a call needs of the connection that it came by. Its methods are called by the goroutine that carries out
// the call, but for those that lend memory, which are called by the handler, too.
type Host interface {
	// Readable reports whether the peer serves RDMA Reads.
	Readable() bool
	// Read posts the one RDMA Read in Call.WRs when the peer serves one more, and AwaitReads waits for those posted.
	Read(ctx context.Context) error
	AwaitReads(ctx context.Context) error
	// Lend leases memory for a call and waits for it, LendNow does not wait. TakeBack takes back what either has lent; no
	// work request may name it any more.
	Lend(ctx context.Context, n int) (mem.Seg, error)
	LendNow(n int) (mem.Seg, error)
	TakeBack(s mem.Seg)
	// Grant posts the receive that the call came by again, and those for the credits that it returns.
	Grant() (credits int, err error)
	// Post posts Call.WRs, the last of which is the Send that ends the call.
	Post(ctx context.Context) error
	// Abandon ends the connection, and leaves the call without an answer.
	Abandon(ctx context.Context, err error)
}

// Opener hooks replies by read chunks (RFC 5666 section 3.8) into a responder that is configured to send them.
type Opener interface {
	// Expose makes the requests that open the reply's read chunks, and the list that names them.
	Expose(ctx context.Context, how plan.Reply, head mem.Seg, marks []xdr.Mark) ([]wire.ReadSegment, error)
	// Published is called when such a reply has been posted.
	Published(ctx context.Context)
}

// Call is a call that is carried out. It belongs to one goroutine, and all memory that work requests name to it.
type Call struct {
	// Hdr is the call's header, and Pad how what follows that is padded.
	Hdr wire.Msg
	Pad *rfc5666.Alignment
	// Msg takes the reply's message: as much of buf as the peer receives.
	Msg mem.Seg
	// WRs are the work requests that are to be posted.
	WRs []verbs.SendWR

	host  Host
	rules *Rules
	// opens is nil unless replies by read chunks are configured.
	opens Opener
	// scratch takes small payloads.
	buf, scratch mem.Seg
	rep          wire.Msg

	// lease is this call's transfer memory: the chunks pulled first, then,
	// from spare on, what the handler leases. used counts into scratch. extra
	// was leased because more was asked for than the peer's chunks hold.
	lease       mem.Seg
	spare, used int
	extra       []mem.Seg

	plan   []plan.Pulled
	chunks []layout.Chunk
	layout layout.Received

	args     xdr.Reader
	reply    xdr.Writer
	head     xdr.Writer
	req      transport.Request
	leases   func(int) (mem.Seg, error) // leasePayload
	handled  bool
	payloads [MaxPayloads]mem.Vec
	added    int

	into []int
	sg   mem.Vec // backs the WRs' Local
	keys []uint32
}

// Init makes k a call on a connection with those rules. buf takes messages, and scratch small payloads; o may be nil.
func (k *Call) Init(h Host, r *Rules, o Opener, buf, scratch mem.Seg) {
	k.host, k.rules, k.opens, k.buf, k.scratch = h, r, o, buf, scratch
	k.req.Args, k.req.Reply, k.req.AddPayload = &k.args, &k.reply, k.addPayload
	k.leases = k.leasePayload
}

// SetRoom says that the peer receives messages of n bytes.
func (k *Call) SetRoom(n int) { k.Msg = k.buf.Slice(0, n) }

// Payload is the payload of the reply with that index.
func (k *Call) Payload(i int) mem.Vec { return k.payloads[i] }

// CarryOut carries out the call in Hdr, which came in in, of which header bytes are the transport's.
func (k *Call) CarryOut(ctx context.Context, in []byte, header int) {
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
func (k *Call) giveUp(ctx context.Context, err error) {
	if !errors.Is(err, transport.ErrProtocol) {
		k.host.Abandon(ctx, err)
		return
	}
	k.rules.Log.Debug("call refused", "xid", k.Hdr.XID, "err", err)
	why := plan.Refuse(wire.ErrBadXDR, wire.Fault{}, "")
	errors.As(err, &why)
	k.SendError(ctx, &k.Hdr.Header, why.Code, why.Fault)
}

// admit checks the chunks of the call that came in in, of which header bytes are
// the transport header, leases the memory that it and its reply will need, pulls
// what is to be pulled and sets args to its first byte. All memory is leased at
// once, so that calls never wait for each other while they hold some.
func (k *Call) admit(ctx context.Context, in []byte, header int) error {
	r, l, stream := k.rules, &k.Hdr.Lists, in[header:]
	if k.Hdr.Version == wire.Version1 && !r.Chunks1 && (k.Hdr.Proc == wire.ProcNoMsg || !l.Empty()) {
		return plan.BadChunk("chunks in a direction that has none")
	}
	var pull int
	var err error
	if k.plan, pull, err = plan.Pull(k.plan[:0], &k.Hdr, len(stream), r.MaxPull); err != nil {
		return err
	}
	if n := len(k.plan); n > r.MaxReadChunks {
		return plan.Refuse(wire.ErrReadChunks, wire.Fault{Max: uint32(r.MaxReadChunks)}, "%d read chunks", n)
	}
	if n := k.Hdr.ReturnedLen(); n > k.Msg.Len {
		return plan.BadChunk("chunk lists whose return takes %d bytes of %d", n, k.Msg.Len)
	}
	if pull > 0 && !k.host.Readable() {
		return plan.Refuse(wire.ErrReadChunks, wire.Fault{}, "read chunk on a connection that allows no RDMA Read")
	}
	k.spare = longbuf.RoundUp(pull, longbuf.Unit)
	need := l.Reply.Len()
	for _, w := range l.Write {
		need += w.Len()
	}
	k.tally(pull > 0)
	if k.lease, err = k.host.Lend(ctx, k.spare+min(need, r.MaxPull)); err != nil {
		return err
	}
	if err := k.pull(ctx); err != nil {
		return err
	}
	k.chunks = k.chunks[:0]
	for _, p := range k.plan {
		k.chunks = append(k.chunks, layout.Chunk{Pos: p.Pos, Data: k.lease.Slice(p.Off, p.Len).Bytes()})
	}
	if k.Hdr.Proc == wire.ProcNoMsg {
		k.layout = layout.Received{Chunks: k.chunks[1:]}
		k.args.Reset(k.chunks[0].Data, nil)
	} else {
		k.layout = layout.Received{Chunks: k.chunks, Padding: k.Pad}
		k.args.Reset(stream, nil)
	}
	k.layout.LayOut(&k.args)
	return nil
}

// tally counts how the call came.
func (k *Call) tally(pulls bool) {
	n, l := k.rules.Count, &k.Hdr.Lists
	switch {
	case k.Hdr.Proc == wire.ProcNoMsg:
		n.PositionZero.Add(1)
		if len(k.plan) > 1 {
			n.ReadChunks.Add(1)
		}
	case pulls:
		n.ReadChunks.Add(1)
	default:
		n.Inline.Add(1)
	}
	if len(l.Write) > 0 {
		n.WriteChunks.Add(1)
	}
	if l.Reply != nil {
		n.ReplyChunks.Add(1)
	}
}

// checkRPC looks at the first words of the RPC message: its XID must be the
// header's (RFC 8166 section 4.5.2).
func (k *Call) checkRPC() error {
	peek := k.args
	xid := peek.Uint32()
	peek.Uint32()
	switch {
	case peek.Err() != nil:
		return plan.BadChunk("RPC message cut short: %v", peek.Err())
	case xid != k.Hdr.XID:
		return plan.BadChunk("XID %#x in the RPC message, %#x in the header", xid, k.Hdr.XID)
	}
	return nil
}

var errNoReply = errors.New("the handler gave no reply")

// callHandler is the handler of one call; it records that the call's header was good.
type callHandler Call

func (h *callHandler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	h.handled = true
	return h.rules.Handler.Serve(ctx, q)
}

// Admit implements oncrpc.Guard.
func (h *callHandler) Admit(q *transport.Request, a oncrpc.Auth) (oncrpc.Admission, error) {
	h.handled = true
	return oncrpc.Admit(h.rules.Handler, q, a)
}

// serve runs the handler and sends the reply.
func (k *Call) serve(ctx context.Context) {
	room := k.Hdr.ReturnedLen()
	k.added, k.used = 0, 0
	k.reply.Reset(k.Msg.Slice(room, k.Msg.Len-room).Bytes(), k.payloads[:])
	q := &k.req
	*q = transport.Request{
		Transport: k.rules.Provider, Peer: k.rules.Peer, Args: q.Args, Reply: q.Reply,
		Lease: k.leases, AddPayload: q.AddPayload, Back: k.rules.Back,
	}
	if k.opens != nil && k.Hdr.Version == wire.Version1 {
		q.Lease = func(n int) (mem.Seg, error) { return k.leaseUnoffered(ctx, n) }
	}
	k.handled = false
	switch ok := oncrpc.Serve(ctx, (*callHandler)(k), q); {
	case ok:
		k.sendReply(ctx, room)
	case k.handled:
		k.host.Abandon(ctx, errNoReply)
	default:
		k.giveUp(ctx, plan.BadChunk("RPC header malformed"))
	}
}

// Release gives back what the call has for the time that it lasts.
func (k *Call) Release() {
	k.giveBack()
	clear(k.payloads[:k.added])
	k.added = 0
	k.sg = k.sg[:0]
}
