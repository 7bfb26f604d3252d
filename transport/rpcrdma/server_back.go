package rpcrdma

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// backchannel is the requester of a server's connection: it makes calls in the backward direction (RFC 8167), with XIDs
// and credits of their own. A call runs on its caller's goroutine; the crew of the connection delivers its reply.
// Nothing is placed directly: in version 2, to a client that says RDMA2_BKREQSUP_GENL (the draft, section 6.2.2), a long
// call goes as a Position-Zero read chunk and a long reply comes in a reply chunk; else all is inline.
type backchannel struct {
	*requester.Requester
	c    *serverConn
	done chan struct{} // closed when nothing is sent any more
	// version is that of the client's calls, which these must have as well.
	version atomic.Uint32
	xid     atomic.Uint32 // the last one used
}

// backSlotBytes is what an outstanding call has of the connection's arena, besides a receive buffer.
func (cfg *ServerConfig) backSlotBytes() int {
	return requester.HeaderLen + cfg.InlineOut + requester.ScratchLen
}

// newBackchannel makes the requester of c. next gives it memory; bufs are the receive buffers of its slots, from the
// number given on.
func newBackchannel(c *serverConn, bufs int, next func(n int) mem.Seg) *backchannel {
	cfg, caps := &c.s.cfg, c.s.dev.Caps()
	b := &backchannel{c: c, done: make(chan struct{})}
	b.version.Store(Version1)
	b.xid.Store(rand.Uint32())
	slots := make([]requester.Memory, cfg.Backward)
	for i := range slots {
		slots[i] = requester.Memory{
			Buffer: bufs + i,
			Header: next(requester.HeaderLen), Call: next(cfg.InlineOut), Scratch: next(requester.ScratchLen),
		}
	}
	b.Requester = requester.New(b, &requester.Rules{
		Credits: cfg.Backward, MaxSGE: caps.MaxSGE, Invalidates: caps.RemoteInvalidate,
		MaxPayload: math.MaxInt, MaxLong: min(maxBackLong, cfg.MaxPayload),
		Copies: true, Patient: true, Count: &requester.Counters{},
	}, slots)
	b.Connected(0, nil)
	return b
}

var errNoBackward = errors.New("the client takes no calls (RDMA2_BKREQSUP_NONE)")

func (b *backchannel) Done() <-chan struct{} { return b.done }

// Quiet is requester.Conn's: nothing is sent after Done.
func (b *backchannel) Quiet() <-chan struct{} { return b.done }

// Err is requester.Conn's.
func (b *backchannel) Err() error {
	select {
	case <-b.done:
		return transport.ErrClosed
	default:
		return nil
	}
}

// Call is transport.Backchannel.
func (b *backchannel) Call(ctx context.Context, c *transport.Call) error {
	if b.version.Load() == Version2 && b.c.props.peerTakes() == wire.BackwardNone {
		return &transport.Error{Fate: transport.NotSent, Err: errNoBackward}
	}
	b.c.crew.Relieve() // somebody must receive the reply
	return b.Exchange(ctx, b.nextXID(), c)
}

// nextXID is one that no call has.
func (b *backchannel) nextXID() uint32 {
	for {
		if xid := b.xid.Add(1); !b.Has(xid) {
			return xid
		}
	}
}

// end fails the outstanding calls and waits for them. Nothing is sent any more.
func (b *backchannel) end() {
	close(b.done)
	b.Wait()
}

// Terms is requester.Conn's.
func (b *backchannel) Terms() plan.Terms {
	cfg, version := &b.c.s.cfg, b.version.Load()
	t := plan.Terms{
		Version: version, SendInline: b.c.sendInline(version), RecvInline: cfg.InlineIn, NoDDP: true, InlineOnly: true,
	}
	// As with ServerConfig.ReadReplies, nothing is opened with keys of whole regions.
	if version == Version2 && b.c.props.peerTakes() == wire.BackwardGeneral && !b.c.s.dev.Caps().RegionKeys {
		t.RecvInline = min(cfg.InlineIn, b.c.props.receiveLimit())
		t.InlineOnly, t.MaxSegments = false, 1
	}
	return t
}

// Sending is requester.Conn's.
func (b *backchannel) Sending(uint32) {}

// Agree is requester.Conn's. No credit is granted by an error, of which nothing says for sure whose it is (RFC 8167 section 4.1).
func (b *backchannel) Agree(_ wire.Header, refusal *wire.Error) bool { return refusal == nil }

// NewWindow is requester.Conn's.
func (b *backchannel) NewWindow() (verbs.Window, error) { return b.c.conn.NewWindow() }

// Buffer is requester.Conn's.
func (b *backchannel) Buffer(i int) []byte { return b.c.recvBuf(i).Bytes() }

// Lend does not wait: the handler that calls back may hold what others wait for.
func (b *backchannel) Lend(_ context.Context, n int) (mem.Seg, error) {
	return b.c.s.pool.Try(&b.c.acct, n)
}

// TakeBack is requester.Conn's.
func (b *backchannel) TakeBack(s mem.Seg) { b.c.s.pool.Release(&b.c.acct, s) }

// Fail is requester.Conn's.
func (b *backchannel) Fail(err error) {
	if err != errLinkDead {
		b.c.fail(err)
	}
}

// Post is requester.Conn's. After an error that is not the end of ctx, windows may be bound, but the connection is closed.
func (b *backchannel) Post(ctx context.Context, s *requester.Sender, stop <-chan struct{}) (int, error) {
	if stop == nil {
		ctx = context.Background()
	}
	var wc [4]verbs.Completion
	if err := b.c.post(ctx, len(b.c.calls)+int(s.WRs[0].ID), s.WRs, wc[:]); err != nil {
		if !errors.Is(err, ctx.Err()) {
			b.Fail(err)
			<-b.done
		}
		return 0, err
	}
	if s.WRs[len(s.WRs)-1].Op == verbs.OpSend {
		b.c.s.count.backward.Add(1)
	}
	return len(s.WRs), nil
}

// completed handles the completion of the last of a slot's work requests.
func (b *backchannel) completed(id int, op verbs.Op) {
	batch := b.NewBatch()
	batch.Begin()
	batch.Completed(uint64(id), op)
	_, _ = batch.End()
	batch.Wake()
}

// keyInvalidated records that the client has invalidated a key.
func (b *backchannel) keyInvalidated(rkey uint32) {
	batch := b.NewBatch()
	batch.Begin()
	batch.Invalidated(0, rkey)
	_, _ = batch.End()
}

// take calls deliver for the message in k, if a call waits for one of that XID, and reports whether one does. The receive
// buffer is posted again before the caller wakes.
func (b *backchannel) take(ctx context.Context, k *serverCall, xid uint32, deliver func(*requester.Batch)) bool {
	batch := b.NewBatch()
	batch.Begin()
	awaited := batch.Awaited(xid)
	if awaited {
		deliver(&batch)
	}
	_, _ = batch.End()
	if awaited {
		k.dismiss(ctx)
		batch.Wake()
	}
	return awaited
}

// reply takes an RPC reply of n bytes, of which header are the transport's.
func (b *backchannel) reply(ctx context.Context, k *serverCall, header, n int) bool {
	return b.take(ctx, k, k.Hdr.XID, func(batch *requester.Batch) {
		k.recv = batch.Replied(&k.Hdr, requester.Arrived{Buf: k.recv, Header: header, Len: n, Padding: k.Pad})
	})
}

// failed takes an error.
func (b *backchannel) failed(ctx context.Context, k *serverCall, e *wire.Error) bool {
	return b.take(ctx, k, e.XID, func(batch *requester.Batch) { batch.Errored(e) })
}

// unreadable takes a message of n bytes in the direction of replies whose header cannot be parsed. In version 1 nothing
// tells the direction of such a message.
func (b *backchannel) unreadable(ctx context.Context, k *serverCall, e *wire.ParseError, n int) bool {
	h := &e.Header
	if h.Version != Version2 || h.Proc != wire.ProcMsg && h.Proc != wire.ProcNoMsg && h.Proc != wire.ProcError || n < wire.ErrorLen2 {
		return false
	}
	return b.take(ctx, k, h.XID, func(batch *requester.Batch) { batch.Garbled(h.XID, e) })
}
