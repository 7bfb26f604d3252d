package roce

import (
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/cm"
	"github.com/rdmafs/rdmafs/verbs/roce/rc"
)

// abandon ends all that uses the port because its socket does not receive any
// more: connections, those that are being set up, and listeners. Their users can use
// the address again, with another port. Only the reader calls it.
func (p *port) abandon(err error) {
	err = fmt.Errorf("UDP socket of %v: %w", p.sock.Local(), err)
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	waiting := p.conns
	p.conns = make(map[cm.ID]*conn)
	for id := range waiting {
		p.cm.Close(time.Now(), id)
	}
	p.dispatch() // ends the connections at the peers, if the socket still sends
	p.sock.Close()

	p.mu.Lock()
	p.lost = err
	var all []*conn
	for _, c := range p.pairs {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		c.parted = true
		if c.q.State() == rc.Idle && waiting[c.id] == c {
			c.outcome <- err // for Dial
		}
		c.fail("receive", err)
		c.mu.Unlock()
	}
	for _, l := range p.listeners {
		l.backlog.Stop(&verbs.ConnError{Op: "accept", Remote: l.addr, Err: err})
	}
}

// failure is why the port was abandoned, nil while it was not.
func (p *port) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}
