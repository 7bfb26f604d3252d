package rpcrdma

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// backchannel is the requester of a server's connection: it makes calls in the backward direction (RFC 8167), with XIDs
// and credits of their own. A call runs on its caller's goroutine; the crew of the connection delivers its reply.
// Nothing is placed directly: in version 2, to a client that says RDMA2_BKREQSUP_GENL (the draft, section 6.2.2), a long
// call goes as a Position-Zero read chunk and a long reply comes in a reply chunk; else all is inline.
type backchannel struct {
	requester
	c *serverConn
	// version is that of the client's calls, which these must have as well.
	version atomic.Uint32
	xid     atomic.Uint32 // the last one used
}

// backSlotBytes is what a call under way has of the connection's arena, besides a receive buffer.
func (cfg *ServerConfig) backSlotBytes() int { return maxHeaderLen + cfg.InlineOut + scratchLen }

// newBackchannel makes the requester of c. next gives it memory; bufs are the receive buffers of its slots, from the
// number given on.
func newBackchannel(c *serverConn, bufs int, next func(n int) mem.Seg) *backchannel {
	cfg := &c.s.cfg
	b := &backchannel{c: c}
	ended := make(chan struct{})
	b.requester = requester{
		port: b, credits: credit.New(cfg.Backward), maxSGE: c.s.dev.Caps().MaxSGE,
		maxPayload: math.MaxInt, copies: true, maxLong: min(maxBackLong, cfg.MaxPayload),
		invalidates: c.s.dev.Caps().RemoteInvalidate, patient: true, stats: &counters{},
		all: make([]slot, cfg.Backward), done: ended, quiet: ended, slots: map[uint32]*slot{},
	}
	b.version.Store(Version1)
	b.xid.Store(rand.Uint32())
	for i := range b.all {
		b.all[i] = slot{
			index: i, buf: bufs + i, waiter: turn.NewWaiter(),
			header: next(maxHeaderLen), call: next(cfg.InlineOut), scratch: next(scratchLen),
		}
		b.free = append(b.free, &b.all[i])
	}
	return b
}

var (
	errNoBackward  = errors.New("the client takes no calls (RDMA2_BKREQSUP_NONE)")
	errBackTooLong = errors.New("call exceeds what the client takes")
)

func (b *backchannel) Done() <-chan struct{} { return b.done }

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
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if xid := b.xid.Add(1); b.slots[xid] == nil {
			return xid
		}
	}
}

// end fails the calls under way and waits for them. Nothing is sent any more.
func (b *backchannel) end() {
	b.mu.Lock()
	b.err = transport.ErrClosed
	close(b.done)
	b.mu.Unlock()
	b.users.Wait()
}

// termsNow is port's.
func (b *backchannel) termsNow() plan.Terms {
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

func (b *backchannel) sending(*slot) {}

// agree is port's. No credit is granted by an error, of which nothing says for sure whose it is (RFC 8167 section 4.1).
func (b *backchannel) agree(_ wire.Header, refusal *wire.Error) bool { return refusal == nil }

func (b *backchannel) newWindow() (verbs.Window, error) { return b.c.conn.NewWindow() }

func (b *backchannel) buffer(i int) []byte { return b.c.recvBuf(i).Bytes() }

// lend does not wait: the handler that calls back may hold what others wait for.
func (b *backchannel) lend(_ context.Context, n int) (mem.Seg, error) {
	return b.c.s.pool.Try(&b.c.acct, n)
}

func (b *backchannel) giveBack(s mem.Seg) { b.c.s.pool.Release(&b.c.acct, s) }

func (b *backchannel) fail(err error) {
	if err != errLinkDead {
		b.c.fail(err)
	}
}

// post is port's. After an error that is not the end of ctx, windows may be bound, but the connection is closed.
func (b *backchannel) post(ctx context.Context, s *sender, stop <-chan struct{}) (int, error) {
	if stop == nil {
		ctx = context.Background()
	}
	var wc [4]verbs.Completion
	if err := b.c.post(ctx, len(b.c.calls)+int(s.wrs[0].ID), s.wrs, wc[:]); err != nil {
		if !errors.Is(err, ctx.Err()) {
			b.fail(err)
			<-b.done
		}
		return 0, err
	}
	if s.wrs[len(s.wrs)-1].Op == verbs.OpSend {
		b.c.s.count.backward.Add(1)
	}
	return len(s.wrs), nil
}

// completed handles the completion of the last of a slot's work requests.
func (b *backchannel) completed(id int, op verbs.Op) {
	s := &b.all[id>>1]
	b.mu.Lock()
	switch op {
	case verbs.OpLocalInvalidate:
		s.invalidating = false
	case verbs.OpSend:
		s.sending = false
	}
	drained := s.state == slotDraining && !s.sending
	if drained {
		b.putSlot(s)
	}
	b.mu.Unlock()
	if drained {
		b.credits.Release(credit.Live)
		return
	}
	s.wake()
}

// keyDead notes that the client has invalidated a key.
func (b *backchannel) keyDead(rkey uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.invalidated(0, rkey)
}

// take calls deliver with the slot that waits for the message in k, and reports whether there is one. The receive buffer is
// posted again before the caller wakes.
func (b *backchannel) take(ctx context.Context, k *serverCall, xid uint32, deliver func(s *slot)) bool {
	b.mu.Lock()
	s := b.slots[xid]
	if s == nil || s.answered() {
		b.mu.Unlock()
		return false
	}
	deliver(s)
	wakeups, released := b.wakeups, b.released
	b.wakeups, b.released = nil, 0
	b.mu.Unlock()
	k.dismiss(ctx)
	b.afterReceives(wakeups, released)
	return true
}

// reply takes an RPC reply of n bytes, of which header are the transport's.
func (b *backchannel) reply(ctx context.Context, k *serverCall, header, n int) bool {
	return b.take(ctx, k, k.Hdr.XID, func(*slot) {
		b.scratch, k.Hdr = k.Hdr, b.scratch
		k.recv = b.replied(b.scratch.Header, arrived{buf: k.recv, header: header, len: n, padding: k.Pad})
	})
}

// failed takes an error.
func (b *backchannel) failed(ctx context.Context, k *serverCall, e *wire.Error) bool {
	return b.take(ctx, k, e.XID, func(*slot) { b.errored(e) })
}

// unreadable takes a message of n bytes in the direction of replies whose header cannot be parsed. In version 1 nothing
// tells the direction of such a message.
func (b *backchannel) unreadable(ctx context.Context, k *serverCall, e *wire.ParseError, n int) bool {
	h := &e.Header
	if h.Version != Version2 || h.Proc != wire.ProcMsg && h.Proc != wire.ProcNoMsg && h.Proc != wire.ProcError || n < wire.ErrorLen2 {
		return false
	}
	return b.take(ctx, k, h.XID, func(s *slot) { b.garbled(s, e) })
}
