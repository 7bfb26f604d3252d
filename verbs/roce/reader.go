package roce

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// runReadDelay is how long no Wait reads before runRead does. A user that loops
// over Wait is back much sooner.
const runReadDelay = time.Millisecond

// past is a read deadline that ends a Recv at once.
var past = time.Unix(1, 0)

// reader is the role of reading the socket. Its fields are guarded by port.mu.
type reader struct {
	taken bool
	// conn is the connection whose Wait has the role; nil when runRead has.
	conn *conn
	// woken: the read deadline was moved to wake the reader.
	woken bool
	// unacked are connections that may have an acknowledgement to send: the next
	// reader sends it.
	unacked []*conn
	// parked are the connections whose Wait sleeps.
	parked map[*conn]struct{}
	// idle fires when runRead should check whether a Wait reads.
	idle *time.Timer
}

func (r *reader) init() {
	r.parked = make(map[*conn]struct{})
	r.idle = time.NewTimer(0)
}

// lead makes c the reader, or parks it.
func (p *port) lead(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.reader
	if r.taken {
		r.parked[c] = struct{}{}
		return false
	}
	r.taken, r.conn = true, c
	return true
}

// unpark is called when a parked Wait goes on.
func (p *port) unpark(c *conn) {
	p.mu.Lock()
	delete(p.reader.parked, c)
	p.mu.Unlock()
}

// resign wakes a parked Wait to take the role. If there is none, or it does not
// take it, runRead will.
func (p *port) resign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.reader
	if r.conn != nil {
		r.unacked = append(r.unacked, r.conn)
	}
	r.taken, r.conn = false, nil
	p.clearInterrupt()
	for c := range r.parked {
		delete(r.parked, c)
		c.wakeWait()
		break
	}
	r.idle.Reset(runReadDelay)
}

// flushAcks sends the acknowledgements that are pending, except that of self.
func (p *port) flushAcks(self *conn) {
	for {
		p.mu.Lock()
		n := len(p.reader.unacked)
		if n == 0 {
			p.mu.Unlock()
			return
		}
		c := p.reader.unacked[n-1]
		p.reader.unacked[n-1] = nil
		p.reader.unacked = p.reader.unacked[:n-1]
		p.mu.Unlock()
		if c == self {
			continue
		}
		c.mu.Lock()
		if c.ackPending {
			c.flush(p.now())
		}
		c.unlock()
	}
}

// clearInterrupt undoes interrupt. mu is held.
func (p *port) clearInterrupt() {
	if p.reader.woken {
		p.reader.woken = false
		p.sock.SetReadDeadline(time.Time{})
	}
}

// interrupt wakes c from the socket if it is the reader.
func (p *port) interrupt(c *conn) {
	p.mu.Lock()
	if r := &p.reader; r.taken && r.conn == c && !r.woken {
		r.woken = true
		p.sock.SetReadDeadline(past)
	}
	p.mu.Unlock()
}

// read receives one batch of packets. It is false when the socket is closed, and
// true without a batch when the reader was interrupted.
func (p *port) read(self *conn) bool {
	switch err := p.sock.Recv(p.inbox); {
	case err == nil:
		p.take(self)
		return true
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.mu.Lock()
		p.clearInterrupt()
		p.mu.Unlock()
		return true
	case errors.Is(err, net.ErrClosed):
		return false
	default:
		p.abandon(err)
		return false
	}
}

// runRead reads while no Wait does.
func (p *port) runRead() {
	defer p.run.Done()
	for {
		select {
		case <-p.stop:
			return
		case <-p.reader.idle.C:
		}
		p.mu.Lock()
		mine := !p.reader.taken
		if mine {
			p.reader.taken = true
		}
		p.mu.Unlock()
		if !mine {
			continue // the reader will set the timer when it resigns
		}
		p.flushAcks(nil)
		for more := true; more; {
			if !p.read(nil) {
				return
			}
			p.mu.Lock()
			more = len(p.reader.parked) == 0
			p.mu.Unlock()
		}
		p.resign()
	}
}

// await returns when c may have a completion, or has ended, or ctx has.
func (c *conn) await(ctx context.Context) {
	p := c.port
	if !p.lead(c) {
		select {
		case <-c.wake:
		case <-ctx.Done():
		}
		p.unpark(c)
		return
	}
	defer p.resign()
	p.flushAcks(c)
	c.arm(ctx)
	for !c.ready(ctx) {
		if !p.read(c) {
			return
		}
	}
}

// arm makes the end of ctx wake a Wait of c that reads. Successive Waits mostly have the same ctx. It belongs to Wait,
// which is exclusive, and to Close.
func (c *conn) arm(ctx context.Context) {
	done := ctx.Done()
	if done == c.armed {
		return
	}
	c.disarm()
	if done != nil {
		c.armed = done
		c.disarmFn = context.AfterFunc(ctx, func() {
			c.wakeWait()
			c.port.interrupt(c)
		})
	}
}

// disarm undoes arm.
func (c *conn) disarm() {
	if c.disarmFn != nil {
		c.disarmFn()
	}
	c.armed, c.disarmFn = nil, nil
}

// wakeWait wakes a Wait of c, if it is parked or about to be.
func (c *conn) wakeWait() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// ready reports whether the Wait of c, which is the reader, has something to
// return. c.waits is set while it has not.
func (c *conn) ready(ctx context.Context) bool {
	select {
	case <-c.wake:
		return true
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = !c.q.Completed() && c.q.Err() == nil && ctx.Err() == nil
	return !c.waits
}
