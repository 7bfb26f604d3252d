package roce

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// idleAfter is how long nobody may read before runRead does. Who loops over
// Wait is back much sooner.
const idleAfter = time.Millisecond

// past is a read deadline that ends a Recv at once.
var past = time.Unix(1, 0)

// reader is the role of who reads the socket. Its fields are guarded by
// port.mu.
type reader struct {
	taken bool
	// conn is whose Wait has the role; nil when runRead has.
	conn *conn
	// woken: the read deadline was moved to get the reader back.
	woken bool
	// owing are connections that may owe their peers an acknowledgement: who reads
	// next sees to it that they pay.
	owing []*conn
	// parked are the connections whose Wait sleeps.
	parked map[*conn]struct{}
	// idle fires when runRead should look if somebody reads.
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

// resign gives the role to one that is parked. If none is, or none takes it,
// runRead will.
func (p *port) resign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.reader
	if r.conn != nil {
		r.owing = append(r.owing, r.conn)
	}
	r.taken, r.conn = false, nil
	p.calm()
	for c := range r.parked {
		delete(r.parked, c)
		c.poke()
		break
	}
	r.idle.Reset(idleAfter)
}

// collect has those pay that owe, except self.
func (p *port) collect(self *conn) {
	for {
		p.mu.Lock()
		n := len(p.reader.owing)
		if n == 0 {
			p.mu.Unlock()
			return
		}
		c := p.reader.owing[n-1]
		p.reader.owing[n-1] = nil
		p.reader.owing = p.reader.owing[:n-1]
		p.mu.Unlock()
		if c == self {
			continue
		}
		c.mu.Lock()
		if c.owes {
			c.flush(p.now())
		}
		c.unlock()
	}
}

// calm undoes interrupt. mu is held.
func (p *port) calm() {
	if p.reader.woken {
		p.reader.woken = false
		p.sock.SetReadDeadline(time.Time{})
	}
}

// interrupt gets c back from the socket if it is the reader.
func (p *port) interrupt(c *conn) {
	p.mu.Lock()
	if r := &p.reader; r.taken && r.conn == c && !r.woken {
		r.woken = true
		p.sock.SetReadDeadline(past)
	}
	p.mu.Unlock()
}

// read takes one batch of packets. It is false when there will be none any
// more, and true without a batch when the reader is wanted back.
func (p *port) read(self *conn) bool {
	switch err := p.sock.Recv(p.inbox); {
	case err == nil:
		p.take(self)
		return true
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.mu.Lock()
		p.calm()
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
			continue // who has the role will set the timer
		}
		p.collect(nil)
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
	p.collect(c)
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			c.poke()
			p.interrupt(c)
		})
		defer stop()
	}
	for !c.ready(ctx) {
		if !p.read(c) {
			return
		}
	}
}

// poke has a Wait of c go on, if it is parked or about to.
func (c *conn) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// ready tells the reader of c that it has something to return. Only while it is
// not does c wait.
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
