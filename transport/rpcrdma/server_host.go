package rpcrdma

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/responder"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// How a server's connection is the host of its client's calls.

// makeRules is what holds for all calls of the client's.
func (c *serverConn) makeRules() {
	cfg, caps := &c.s.cfg, c.s.dev.Caps()
	c.rules = responder.Rules{
		Handler: c, Provider: caps.Provider, Peer: c.peer, Versions: cfg.Versions,
		Log: cfg.Log.With("client", c.peer), Count: &c.s.count.Counters,
		Chunks1: true, Invalidate1: c.invalidate,
		MaxPull: cfg.MaxPayload + headRoom, MaxReadChunks: plan.MaxReadChunks, MaxLease: cfg.MaxPayload + headRoom, MaxReply: math.MaxInt, MaxExposed: maxExposed,
		MaxSGE: caps.MaxSGE, MaxMessage: caps.MaxMessage, Zeros: c.arena.Seg(c.padAt(), responder.PadRoom),
	}
	if c.back != nil {
		c.rules.Back = c.back
	}
}

// Serve is the handler of the client's calls.
func (c *serverConn) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Prog == rfc5666.ConfigProgram {
		return c.configure(ctx, q)
	}
	return c.s.handler.Serve(ctx, q)
}

// Admit implements oncrpc.Guard.
func (c *serverConn) Admit(q *transport.Request, a oncrpc.Auth) (oncrpc.Admission, error) {
	return oncrpc.Admit(c.s.handler, q, a)
}

func (k *serverCall) Readable() bool { return k.c.readable.Load() }

// Read is responder.Host's.
func (k *serverCall) Read(ctx context.Context) error {
	c, wr := k.c, &k.WRs[0]
	c.crew.Relieve()
	select {
	case c.reads <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.busy.Add(1)
	k.reads.Add(1)
	wr.ID, wr.Signaled = uint64(k.id), true
	if _, err := c.conn.PostSend(k.WRs); err != nil {
		return fmt.Errorf("RDMA Read of %d bytes: %w", wr.Local.Len(), err)
	}
	return nil
}

// AwaitReads is responder.Host's.
func (k *serverCall) AwaitReads(ctx context.Context) error {
	if k.reads.Add(-1) == 0 {
		return nil
	}
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pulled is called for every RDMA Read completed.
func (k *serverCall) pulled() {
	if k.reads.Add(-1) == 0 {
		k.done <- struct{}{}
	}
}

func (k *serverCall) Lend(ctx context.Context, n int) (mem.Seg, error) {
	if n == 0 {
		return mem.Seg{}, nil
	}
	if s, err := k.c.s.pool.Try(&k.c.acct, n); err == nil {
		return s, nil
	}
	k.c.batch.flush(ctx, k.c) // which may give memory back
	k.c.crew.Relieve()
	return k.c.s.pool.Lease(ctx, nil, &k.c.acct, n)
}

func (k *serverCall) LendNow(n int) (mem.Seg, error) { return k.c.s.pool.Try(&k.c.acct, n) }

func (k *serverCall) TakeBack(s mem.Seg) { k.c.s.pool.Release(&k.c.acct, s) }

// Grant is responder.Host's.
func (k *serverCall) Grant() (credits int, err error) {
	c := k.c
	credits = c.s.grant(k.asked)
	if err = k.repost(); err == nil {
		err = c.postReceives(c.conn, min(credits+c.otherReceives(), c.receives()))
	}
	credits = max(1, credits-c.exposer.out()) // RFC 5666 section 11
	if err == nil {
		c.granted.Store(int32(credits))
	}
	return credits, err
}

// Post is responder.Host's. The replies to calls that came together are posted together.
func (k *serverCall) Post(ctx context.Context) error {
	k.refs.Add(1) // the completion's
	if k.more && k.exposure == nil && k.c.crew.Here(k.turn) && k.c.batch.add(k) {
		return nil
	}
	return k.c.post(ctx, k.id, k.WRs, k.wc[:])
}

// replyBatch is replies that wait to be posted together: by the member of the crew that has made them, when no further call is
// there or when it is relieved, or by who relieves it.
type replyBatch struct {
	n   atomic.Int32 // of replies, for a look without the lock
	mu  sync.Mutex
	wrs []verbs.SendWR
	wc  [maxReplies]verbs.Completion
}

// maxReplies bounds the replies of a batch, batchWRs its work requests.
const (
	maxReplies = 16
	batchWRs   = 4 * groupWRs
)

func (b *replyBatch) waits() bool { return b.n.Load() > 0 }

// add takes the reply of k, which must not be waited for, and reports whether it did.
func (b *replyBatch) add(k *serverCall) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n.Load() == maxReplies || len(b.wrs)+len(k.WRs) > batchWRs || len(k.WRs) > groupWRs {
		return false
	}
	select {
	case k.c.sends <- struct{}{}:
	default:
		return false
	}
	k.c.busy.Add(1)
	for i := range k.WRs {
		k.WRs[i].ID = uint64(k.id)
	}
	k.WRs[len(k.WRs)-1].Signaled = true
	b.wrs = append(b.wrs, k.WRs...)
	b.n.Add(1)
	return true
}

// flush posts what waits.
func (b *replyBatch) flush(ctx context.Context, c *serverConn) {
	if !b.waits() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrs) == 0 {
		return
	}
	n, reaped, err := c.conn.PostAndReap(b.wrs, b.wc[:])
	for _, w := range b.wc[:reaped] {
		c.sent(w)
	}
	if err != nil && ctx.Err() == nil {
		c.fail(fmt.Errorf("work request %d of %d: %w", n, len(b.wrs), err))
	}
	clear(b.wrs)
	b.wrs = b.wrs[:0]
	b.n.Store(0)
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
		if err := c.takeToken(ctx); err != nil {
			return err
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

// takeToken takes one of sends. To wait for it somebody must receive.
func (c *serverConn) takeToken(ctx context.Context) error {
	select {
	case c.sends <- struct{}{}:
		return nil
	default:
	}
	c.batch.flush(ctx, c)
	c.crew.Relieve()
	select {
	case c.sends <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.gone:
		return errLinkDead
	}
}
