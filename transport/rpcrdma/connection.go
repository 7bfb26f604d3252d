package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/stall"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// connection is a client's connection as its requester (requester.Conn), and what serves the server's calls, see it: they post,
// lease long buffers, ask which terms are in force, and end it. link.go makes one, and reap.go receives from it.
//
// mu is held for moments, and not on the way of a call: what each call asks for stands in atomics.
type connection struct {
	d    *dialer
	conn verbs.Conn
	long *longbuf.Pool
	// arena holds the slots' buffers and the receive buffers.
	arena  *mem.Arena
	region verbs.MemoryRegion
	bufs   []mem.Seg
	// sendQueue is the number of places in the send queue, readsIn how many RDMA Reads are served here.
	sendQueue, readsIn int
	// turn is whose turn it is to receive.
	turn  *turn.Turn
	stall *stall.Watch
	// control is nil on a link that begins, and stays, in version 1.
	control *control
	// atEnd is called once, when the connection ends.
	atEnd func()
	// done is closed at the end of the connection, quiet once it touches
	// no memory any more.
	done, quiet chan struct{}

	// inForce is replaced with mu held.
	inForce atomic.Pointer[inForce]
	// granted: an answer that was no error has come.
	granted atomic.Bool
	// full: room is not nil.
	full atomic.Bool

	mu  sync.Mutex
	err error
	// room is closed at the next completion; nil when nobody waits for it.
	room chan struct{}
	// reads is how many RDMA Reads the server serves.
	reads int
}

// inForce is where a connection stands.
type inForce struct {
	version versionState
	// terms are those of version 1 until the version is settled, and then of that, but for what properties change.
	terms plan.Terms
}

// prepare makes c a connection that is not established.
func (c *connection) prepare(d *dialer, long *longbuf.Pool) {
	c.d, c.long = d, long
	c.done, c.quiet = make(chan struct{}), make(chan struct{})
	c.stall = stall.New(d.cfg.StallLimit, func() { c.Fail(errStalled) })
	c.atEnd = func() {}
	c.inForce.Store(&inForce{terms: plan.Terms{Version: Version1}})
}

// begin is called once the connection is established. Terms are those of version 1.
func (c *connection) begin(t plan.Terms) {
	now := &inForce{terms: t}
	if c.control != nil {
		now.version = versionTry
	}
	c.inForce.Store(now)
	c.noteTerms()
}

func (c *connection) Done() <-chan struct{}  { return c.done }
func (c *connection) Quiet() <-chan struct{} { return c.quiet }

// Err is why the connection has ended.
func (c *connection) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Fail ends the connection, unless it has ended. Exchanges then wait for quiet.
func (c *connection) Fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
		close(c.done)
	}
	c.mu.Unlock()
	if first {
		if err := c.conn.Close(); err != nil {
			c.d.cfg.Log.Info(fmt.Sprintf("closing the connection to %s: %v", c.d.cfg.Addr, err))
		}
		c.atEnd()
	}
}

// Stalled implements transport.Stalling, as far as the connection can tell.
func (c *connection) Stalled() error {
	if c, ok := c.conn.(verbs.Stalling); ok {
		return c.Stalled()
	}
	return nil
}

// receive makes receive buffer i ready to be posted.
func (c *connection) receive(i int) verbs.RecvWR {
	wr := verbs.RecvWR{ID: uint64(i), Buf: c.bufs[i]}
	if c.control != nil {
		wr.Buf = wr.Buf.Slice(0, c.control.props.post(i))
	}
	return wr
}

// postFirst posts the receives for all credits.
func (c *connection) postFirst(qp verbs.QP) error {
	wrs := make([]verbs.RecvWR, c.d.cfg.receives())
	for i := range wrs {
		wrs[i] = c.receive(i)
	}
	_, err := qp.PostRecv(wrs)
	return err
}

// Post posts s.WRs. While the send queue is full it waits until something has completed, or until stop, which is ctx's or
// nil. A peer that takes nothing off the wire for too long costs the connection.
func (c *connection) Post(ctx context.Context, s *requester.Sender, stop <-chan struct{}) (posted int, err error) {
	c.stall.Set(ctx, &s.Deadline)
	defer s.Deadline.Clear()
	posted, err = c.conn.PostSend(s.WRs)
	if errors.Is(err, verbs.ErrQueueFull) {
		c.turn.Expect()
		defer c.turn.Unexpect()
	}
	for errors.Is(err, verbs.ErrQueueFull) {
		room := c.awaitRoom()
		var n int
		n, err = c.conn.PostSend(s.WRs[posted:])
		posted += n
		if !errors.Is(err, verbs.ErrQueueFull) {
			break
		}
		select {
		case <-room:
		case <-stop:
			return posted, ctx.Err()
		case <-c.done:
			return posted, errLinkDead
		}
	}
	return posted, err
}

// awaitRoom returns a channel that is closed when something has completed. The caller posts again before it waits: what
// completed before is not seen.
func (c *connection) awaitRoom() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room == nil {
		c.room = make(chan struct{})
		c.full.Store(true)
	}
	return c.room
}

// wakeForRoom wakes the callers that wait for room in the send queue.
func (c *connection) wakeForRoom() {
	if !c.full.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room != nil {
		close(c.room)
		c.room = nil
		c.full.Store(false)
	}
}

// Lend leases n bytes of the dialer's long buffers.
func (c *connection) Lend(ctx context.Context, n int) (mem.Seg, error) {
	seg, err := c.long.Lease(ctx, c.done, &c.d.longAcct, n)
	switch {
	case errors.Is(err, longbuf.ErrTooLarge):
		return mem.Seg{}, &tooLongError{need: n, have: c.d.longAcct.Limit}
	case errors.Is(err, longbuf.ErrEnded):
		return mem.Seg{}, errLinkDead
	}
	return seg, err
}

// TakeBack takes back what Lend has lent.
func (c *connection) TakeBack(s mem.Seg) { c.long.Release(&c.d.longAcct, s) }

// NewWindow is requester.Conn's.
func (c *connection) NewWindow() (verbs.Window, error) { return c.conn.NewWindow() }

// Buffer is requester.Conn's.
func (c *connection) Buffer(i int) []byte { return c.bufs[i].Bytes() }

// readsNow is how many RDMA Reads the server serves.
func (c *connection) readsNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// tooLongError says that a message needs more than there ever is.
type tooLongError struct{ need, have int }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes exceeds the %d there are for long messages", e.need, e.have)
}
