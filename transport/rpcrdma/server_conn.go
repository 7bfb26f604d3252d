package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport/crew"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/responder"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const (
	// recvSlack receives are posted beyond the credits granted, for messages
	// that cost none (RDMA_DONE, RDMA_ERROR).
	recvSlack = 4
	// firstReceives are posted before the client can send.
	firstReceives = 8
	// groupWRs is how many work requests one token of serverConn.sends stands
	// for, sendGroups how many tokens there are.
	groupWRs   = 16
	sendGroups = 32
)

// serverConn is one client. Its crew (runReceiver) reaps completions and carries out calls: package crew says who does what.
type serverConn struct {
	s    *Server
	conn verbs.Conn
	peer string

	out        atomic.Int32 // the most that a message of version 1 to the client may hold
	invalidate bool         // the client takes Send with Invalidate
	readable   atomic.Bool  // the client serves RDMA Reads
	configured atomic.Bool  // by the Connection Configuration Protocol

	rules responder.Rules
	arena *mem.Arena // receive buffers, then the calls' buffers
	acct  longbuf.Account
	props *props // nil unless version 2 may be spoken
	// sendingProps is held while messages about properties are posted: one that
	// overtook another would undo what that says of the receive size.
	sendingProps sync.Mutex

	// sends holds a token for each group of work requests posted and not
	// completed, reads one for each RDMA Read. Their capacities bound the
	// send queue.
	sends, reads chan struct{}

	calls []*serverCall
	free  chan *serverCall

	exposer *exposer // nil unless replies by read chunks are configured

	back *backchannel  // nil when there is none
	gone chan struct{} // closed when no work request is carried out any more

	crew   *crew.Crew
	joined sync.WaitGroup // of the crew
	// over is closed by who finds the connection ended, after it has set endErr.
	over   chan struct{}
	endErr error
	// What follows belongs to who receives: completions reaped, and messages that came and are not taken up, from
	// arrived[taken] on.
	wc      [32]verbs.Completion
	arrived []arrival
	taken   int

	batch replyBatch

	granted atomic.Int32
	// receiving is a copy of posted that can be read without mu.
	receiving atomic.Int32
	busy      atomic.Int64  // tokens of sends and reads out
	moved     atomic.Uint64 // completions of sends and reads
	arrivals  atomic.Uint64

	mu     sync.Mutex
	posted int   // receives in use; those from here on were never posted
	cause  error // why the connection was given up by this side
	ended  bool
	watch  connWatch
}

// arrival is a message in receive buffer Recv.
type arrival struct{ recv, n int }

// connWatch is what runWatch remembers of a connection.
type connWatch struct {
	moved, arrivals     uint64
	movedAt, arrivalsAt time.Time
}

func newServerConn(s *Server, req verbs.Request) *serverConn {
	p, _ := wire.ParsePrivateData(req.PrivateData())
	c := &serverConn{
		s:          s,
		peer:       req.RemoteAddr().Addr().Unmap().String(),
		invalidate: p.RemoteInvalidate,
		acct:       longbuf.Account{Limit: s.cfg.ConnMemory},
		gone:       make(chan struct{}),
		crew:       crew.New(),
		over:       make(chan struct{}),
	}
	c.out.Store(int32(min(s.cfg.InlineOut, p.RecvSize)))
	if s.cfg.ReadReplies {
		c.exposer = newExposer(s.cfg.Credits)
	}
	if s.cfg.Versions.Has(Version2) {
		c.props = newProps(c.buffers(), s.cfg.receiveSize(), s.cfg.InlineOut, backwardSupport(s.cfg.Backward > 0))
	}
	return c
}

// receives is the number of receives.
func (c *serverConn) receives() int { return c.s.cfg.Credits + c.otherReceives() }

// buffers is the number of receive buffers: one for each receive, and one for each call in the backward direction, which
// keeps that of its reply.
func (c *serverConn) buffers() int { return c.receives() + c.s.cfg.Backward }

// otherReceives is how many of them are for what costs no credit: RDMA_DONE owed,
// replies to backward calls, and the slack.
func (c *serverConn) otherReceives() int {
	return recvSlack + c.exposer.most() + c.s.cfg.Backward
}

// callsAtOnce is the number of serverCalls: one for each receive, and one for
// each reply whose chunks are open.
func (c *serverConn) callsAtOnce() int { return c.receives() + c.exposer.most() }

// callBytes is what a call has of the arena: room for its message, as much for
// small payloads leased for it, and for messages about properties.
func (c *serverConn) callBytes() int { return 2*c.s.cfg.InlineOut + ctlBytes }

// runConn is a client's life: set-up, reaping, and giving everything back.
func (c *serverConn) runConn(ctx context.Context, req verbs.Request) {
	defer c.s.forget(c)
	if err := c.serve(ctx, req); err != nil {
		c.s.count.connectFails.Add(1)
		c.s.cfg.Log.Warn("client could not connect", "client", req.RemoteAddr(), "err", err)
	}
}

// makeBuffers makes what a connection holds for as long as it lives. The
// caller closes the arena.
func (c *serverConn) makeBuffers() (err error) {
	cfg, calls := &c.s.cfg, c.callsAtOnce()
	if c.arena, err = mem.NewArena(c.padAt() + responder.PadRoom); err != nil {
		return err
	}
	at := c.buffers() * cfg.receiveSize()
	next := func(n int) mem.Seg {
		at += n
		return c.arena.Seg(at-n, n)
	}
	c.free = make(chan *serverCall, calls)
	for i := range calls {
		k := newServerCall(c, i, next(c.callBytes()))
		c.calls = append(c.calls, k)
		c.free <- k
	}
	if cfg.Backward > 0 {
		c.back = newBackchannel(c, c.receives(), next)
	}
	c.makeRules()
	groups := min(sendGroups, (c.s.dev.Caps().MaxQueue-cfg.ReadDepth)/groupWRs)
	c.sends = make(chan struct{}, groups)
	return nil
}

func (c *serverConn) serve(ctx context.Context, req verbs.Request) (err error) {
	cfg, n := &c.s.cfg, c.receives()
	if err = c.makeBuffers(); err != nil {
		return errors.Join(err, req.Reject(nil))
	}
	defer func() { err = errors.Join(err, c.arena.Close()) }()
	region, err := c.s.dev.Register(c.arena)
	if err != nil {
		return errors.Join(err, req.Reject(nil))
	}
	defer func() { err = errors.Join(err, region.Close()) }()
	accepting, stopAccept := context.WithTimeout(ctx, cfg.StallTimeout)
	conn, err := req.Accept(accepting, verbs.ConnOptions{
		PrivateData: wire.PrivateData{RemoteInvalidate: true, SendSize: cfg.InlineOut, RecvSize: cfg.InlineIn}.Append(nil),
		SendQueue:   cap(c.sends)*groupWRs + cfg.ReadDepth,
		RecvQueue:   n,
		ReadsOut:    cfg.ReadDepth,
		ReadsIn:     c.readsIn(),
		Prepare: func(qp verbs.QP) error {
			return c.postReceives(qp, min(n, firstReceives+c.otherReceives()))
		},
	})
	stopAccept()
	if err != nil {
		return err
	}
	c.reads = make(chan struct{}, min(cfg.ReadDepth, conn.ReadsOut()))
	c.readable.Store(cap(c.reads) > 0)
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	c.s.count.connects.Add(1)
	cfg.Log.Info("client connected", "client", conn.RemoteAddr(), "inline", c.out.Load(), "reads", cap(c.reads))

	ctx, stop := context.WithCancel(ctx)
	c.crew.Start = func() { c.joined.Go(func() { c.runReceiver(ctx) }) }
	c.crew.Start()
	<-c.over
	err = c.endErr
	// Nothing touches memory once Close has returned. Calls in their handler
	// are waited for; they see their context end.
	closeErr := conn.Close()
	stop()
	close(c.gone)
	if c.back != nil {
		c.back.end()
	}
	c.joined.Wait()
	for _, k := range c.calls {
		k.Release()
	}
	c.mu.Lock()
	c.ended = true
	cause := c.cause
	c.mu.Unlock()
	if cause != nil {
		err = cause
	}
	cfg.Log.Info("client gone", "client", conn.RemoteAddr(), "err", errors.Join(err, closeErr))
	return nil
}

// runReceiver is a member of the crew: it drives the connection, and carries out calls, until the connection ends.
func (c *serverConn) runReceiver(ctx context.Context) {
	for {
		a, ok := c.next(ctx)
		if !ok {
			close(c.over)
			return
		}
		if !c.carryOut(ctx, a) && !c.crew.StandBy(ctx.Done()) {
			return
		}
	}
}

// next returns a message, for which it waits. The connection has ended if ok is false, for the reason endErr.
func (c *serverConn) next(ctx context.Context) (a arrival, ok bool) {
	for c.taken == len(c.arrived) {
		c.batch.flush(ctx, c) // replies that a member has left that was relieved
		c.arrived, c.taken = c.arrived[:0], 0
		n, err := c.conn.Wait(ctx, c.wc[:])
		for _, w := range c.wc[:n] {
			c.completed(w)
		}
		if err != nil {
			c.endErr = err
			return arrival{}, false
		}
	}
	c.taken++
	return c.arrived[c.taken-1], true
}

// carryOut takes up a message, and reports whether its goroutine receives again.
func (c *serverConn) carryOut(ctx context.Context, a arrival) (receives bool) {
	more := c.taken < len(c.arrived)
	turn := c.crew.Begin()
	k := c.takeCall(ctx)
	if k == nil {
		return false
	}
	k.turn, k.more = turn, more
	k.run(ctx, a)
	if !more || !c.crew.Here(turn) {
		c.batch.flush(ctx, c)
	}
	return c.crew.End(turn)
}

// takeCall takes a call that is free. To wait for one somebody must receive. It returns nil when the connection has ended.
func (c *serverConn) takeCall(ctx context.Context) *serverCall {
	select {
	case k := <-c.free:
		return k
	default:
	}
	c.batch.flush(ctx, c)
	c.crew.Relieve()
	select {
	case k := <-c.free:
		return k
	case <-ctx.Done():
		return nil
	}
}

func (c *serverConn) completed(w verbs.Completion) {
	if w.Op == verbs.OpRecv {
		c.arrivals.Add(1)
		c.s.count.received.Add(uint64(w.Len))
		c.learn(w)
		c.arrived = append(c.arrived, arrival{recv: int(w.ID), n: w.Len})
		return
	}
	c.sent(w)
}

// sent handles a completion of the send queue, on whichever goroutine has reaped it.
func (c *serverConn) sent(w verbs.Completion) {
	c.moved.Add(1)
	c.busy.Add(-1)
	if i := int(w.ID) - len(c.calls); i >= 0 {
		<-c.sends
		c.back.completed(i, w.Op)
		return
	}
	k := c.calls[w.ID]
	switch w.Op {
	case verbs.OpRead:
		<-c.reads
		k.pulled()
	case verbs.OpWrite, verbs.OpBind:
		<-c.sends
	case verbs.OpLocalInvalidate:
		<-c.sends
		k.closed()
	case verbs.OpSend, verbs.OpSendInvalidate:
		<-c.sends
		k.unref()
	}
}

// readsIn is how many RDMA Reads the client may have outstanding here.
func (c *serverConn) readsIn() int {
	if c.exposer == nil && c.back == nil {
		return 0
	}
	return c.s.cfg.ReadDepth
}

func (c *serverConn) recvBuf(i int) mem.Seg {
	n := c.s.cfg.receiveSize()
	return c.arena.Seg(i*n, n)
}

// receive makes receive buffer i ready to be posted.
func (c *serverConn) receive(i int) verbs.RecvWR {
	wr := verbs.RecvWR{ID: uint64(i), Buf: c.recvBuf(i)}
	if c.props != nil {
		wr.Buf = wr.Buf.Slice(0, c.props.post(i))
	}
	return wr
}

// padAt is where in the arena rules.Zeros is, behind all that makeBuffers lays out.
func (c *serverConn) padAt() int {
	cfg := &c.s.cfg
	return c.buffers()*cfg.receiveSize() + c.callsAtOnce()*c.callBytes() + cfg.Backward*cfg.backSlotBytes()
}

// postReceives makes sure that n receive buffers are in use.
func (c *serverConn) postReceives(qp verbs.QP, n int) error {
	if n <= int(c.receiving.Load()) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n <= c.posted {
		return nil
	}
	wr := make([]verbs.RecvWR, 0, n-c.posted)
	for i := c.posted; i < n; i++ {
		wr = append(wr, c.receive(i))
	}
	done, err := qp.PostRecv(wr)
	c.posted += done
	c.receiving.Store(int32(c.posted))
	return err
}

// fail gives the connection up. The run goroutine does the rest.
func (c *serverConn) fail(err error) {
	c.mu.Lock()
	first := c.cause == nil && !c.ended
	if first {
		c.cause = err
	}
	conn := c.conn
	c.mu.Unlock()
	if first {
		c.s.count.drops.Add(1)
		if err := conn.Close(); err != nil {
			c.s.cfg.Log.Debug("closing a connection", "client", conn.RemoteAddr(), "err", err)
		}
	}
}

// look is called by runWatch every now and then.
func (c *serverConn) look(now time.Time) {
	if err := c.overdue(now); err != nil {
		c.fail(err)
	}
}

// overdue reports whether the client has stalled, or been silent, for too long.
func (c *serverConn) overdue(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil || c.cause != nil || c.ended {
		return nil
	}
	if err := c.exposer.overdue(now, c.s.cfg.DoneTimeout); err != nil {
		return err
	}
	w := &c.watch
	if n := c.moved.Load(); n != w.moved || c.busy.Load() == 0 || w.movedAt.IsZero() {
		w.moved, w.movedAt = n, now
	}
	if n := c.arrivals.Load(); n != w.arrivals || len(c.free) < cap(c.free) || w.arrivalsAt.IsZero() {
		w.arrivals, w.arrivalsAt = n, now
	}
	switch idle := c.s.cfg.IdleTimeout; {
	case now.Sub(w.movedAt) >= c.s.cfg.StallTimeout:
		return fmt.Errorf("client took nothing for %v", now.Sub(w.movedAt).Round(time.Millisecond))
	case idle > 0 && now.Sub(w.arrivalsAt) >= idle:
		return fmt.Errorf("client made no call for %v", now.Sub(w.arrivalsAt).Round(time.Millisecond))
	}
	return nil
}
