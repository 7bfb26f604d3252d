package roce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/cm"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
	"github.com/rdmafs/rdmafs/verbs/roce/rc"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// conn implements verbs.Conn.
type conn struct {
	dev    *device
	port   *port
	path   *udp.Path
	local  netip.AddrPort
	remote netip.AddrPort
	qpn    uint32
	psn    packet.PSN // of the peer's first request

	// Set during set-up, before the connection is shared.
	private  []byte
	readsOut int
	// outcome gets that of a dial.
	outcome chan error

	// waiting makes Wait exclusive. armed and disarmFn are of the context whose end wakes it.
	waiting  sync.Mutex
	armed    <-chan struct{}
	disarmFn func() bool
	// wake wakes a Wait that sleeps, or is about to.
	wake chan struct{}
	once sync.Once

	mu sync.Mutex
	q  *rc.QP
	id cm.ID // 0 before the connection manager knows
	// mtu is the path MTU; dialed: it is this side's choice.
	mtu    int
	dialed bool
	// established and parted: the connection manager knows that the connection is
	// established, or is over.
	established, parted, closed bool
	// waits: a Wait is to be woken for the next completion.
	waits bool
	// ackPending: an acknowledgement is not sent yet, but with what the user posts
	// next, or by its next Wait.
	ackPending bool
	// sendErr is why the system last refused a packet.
	sendErr error
	err     error
	batch   udp.Batch
	packet  rc.Packet
	head    []byte
}

// newConn makes the queue pair of a connection that is being set up. It
// holds the device until Close.
func (d *device) newConn(local, remote netip.AddrPort, o *verbs.ConnOptions) (*conn, error) {
	path, err := udp.NewPath(local.Addr(), remote.Addr())
	if err != nil {
		return nil, err
	}
	p, err := d.hold(local.Addr())
	if err != nil {
		return nil, err
	}
	c := &conn{
		dev: d, port: p, path: path, local: local, remote: remote, psn: packet.PSN(random24()),
		outcome: make(chan error, 1),
		wake:    make(chan struct{}, 1),
		head:    make([]byte, 0, packet.MaxHeader),
		q:       rc.New(rc.Config{SendQueue: o.SendQueue, RecvQueue: o.RecvQueue, Address: d.Address}),
	}
	p.cmMu.Lock()
	err = p.enter(c)
	p.cmMu.Unlock()
	if err != nil {
		d.Release()
		return nil, err
	}
	return c, nil
}

func (c *conn) LocalAddr() netip.AddrPort  { return c.local }
func (c *conn) RemoteAddr() netip.AddrPort { return c.remote }
func (c *conn) PrivateData() []byte        { return c.private }
func (c *conn) ReadsOut() int              { return c.readsOut }

// ended is the reason for the connection's end, nil while it lives. mu is held.
func (c *conn) ended() error {
	switch err := c.q.Err(); {
	case c.closed:
		return verbs.ErrClosed
	case err != nil && c.err == nil:
		if errors.Is(err, rc.ErrRetries) && c.sendErr != nil {
			err = fmt.Errorf("%w; sending failed: %w", err, c.sendErr)
		}
		var ce *verbs.ConnError
		if !errors.As(err, &ce) {
			err = &verbs.ConnError{Op: "transfer", Remote: c.remote, Err: err}
		}
		c.err = err
	}
	return c.err
}

// fail ends the connection with err, unless it has ended already. mu is held.
func (c *conn) fail(op string, err error) {
	c.q.Fail(&verbs.ConnError{Op: op, Remote: c.remote, Err: err})
	c.learn()
	c.notify()
}

// flush sends what is to be sent now. mu is held.
func (c *conn) flush(now time.Duration) {
	c.ackPending = false
	if c.q.Missed() {
		c.batch.Lost()
	}
	c.q.Share(int(c.port.share.Load()))
	for more := true; more; {
		for !c.batch.Full() {
			if more = c.q.Next(now, &c.packet); !more {
				break
			}
			c.head = c.packet.Header.Append(c.head[:0])
			c.batch.Add(c.path, c.head, c.packet.Payload)
		}
		if c.batch.Len() > 0 {
			if err := c.port.sock.Send(&c.batch); err != nil {
				c.sendErr = err
				if errors.Is(err, unix.EMSGSIZE) && c.dialed && c.mtu > leastMTU {
					c.q.Fail(&rc.ErrTooLarge{MTU: c.mtu})
				}
			}
		}
	}
	c.port.arm(c.q.Deadline())
}

// notify wakes a Wait that sleeps, when there is something for it. mu is held.
func (c *conn) notify() {
	if c.waits && (c.q.Completed() || c.q.Err() != nil) {
		c.waits = false
		c.wakeWait()
		c.port.interrupt(c)
	}
}

// unlock unlocks mu, and then reports a change of state to the connection manager,
// whose lock comes before mu in the lock order. mu is held.
func (c *conn) unlock() {
	c.learn()
	var report func(*conn)
	switch s := c.q.State(); {
	case c.id == 0:
	case s == rc.Failed && !c.parted:
		c.parted = true
		report = c.port.part
	case s == rc.Established && !c.established:
		c.established = true
		report = c.port.heard
	}
	c.mu.Unlock()
	if report != nil {
		report(c)
	}
}

// Close implements verbs.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed, c.parted = true, true
		c.q.Fail(verbs.ErrClosed)
		c.learn()
		c.notify()
		c.mu.Unlock()
		c.port.part(c)
		c.waiting.Lock()
		c.disarm()
		c.port.leave(c)
		c.waiting.Unlock()
		c.dev.Release()
	})
	return nil
}

// PostRecv implements verbs.QP.
func (c *conn) PostRecv(wr []verbs.RecvWR) (posted int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range wr {
		if err = c.ended(); err == nil {
			err = c.q.PostRecv(&wr[i])
		}
		if err != nil {
			break
		}
		posted++
	}
	return posted, err
}

// PostSend implements verbs.QP.
func (c *conn) PostSend(wr []verbs.SendWR) (posted int, err error) {
	posted, _, err = c.PostAndReap(wr, nil)
	return posted, err
}

// PostAndReap implements verbs.QP.
func (c *conn) PostAndReap(wr []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	c.mu.Lock()
	for i := range wr {
		if err = c.ended(); err == nil {
			err = c.q.PostSend(&wr[i], windowOf(&wr[i]))
		}
		if err != nil {
			break
		}
		posted++
	}
	reaped = c.q.ReapSends(wc)
	if posted > 0 {
		c.finish(c.port.now(), nil)
	} else {
		c.mu.Unlock()
	}
	return posted, reaped, err
}

// Wait implements verbs.QP.
func (c *conn) Wait(ctx context.Context, wc []verbs.Completion) (int, error) {
	if len(wc) == 0 {
		return 0, &verbs.UsageError{Op: verbs.OpRecv, Why: "Wait without room for a completion"}
	}
	c.waiting.Lock()
	defer c.waiting.Unlock()
	for {
		n, err := c.look(ctx, wc)
		if n > 0 || err != nil {
			return n, err
		}
		c.await(ctx)
	}
}

// look is Wait without waiting.
func (c *conn) look(ctx context.Context, wc []verbs.Completion) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, verbs.ErrClosed
	}
	if n = c.q.Reap(wc); n > 0 {
		return n, nil
	}
	if c.ackPending {
		c.flush(c.port.now())
	}
	if err = c.ended(); err == nil {
		err = ctx.Err()
	}
	c.waits = err == nil
	return 0, err
}
