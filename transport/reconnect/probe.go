package reconnect

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
)

// examine starts runExamine on the slot's link, at most once per Config.Probe.
// Caller.mu is held.
func (s *slot) examine() {
	c := s.c
	now := c.cfg.Clock.Now()
	if c.closed || s.condemned || s.examining || now.Sub(s.examined) < c.cfg.Probe {
		return
	}
	s.examining, s.examined = true, now
	probe := s.probed != s.link
	if probe {
		s.probed = s.link
	}
	c.wg.Add(1)
	go s.runExamine(s.link, probe, transport.Call{Prog: c.prog, Vers: c.vers})
}

// runExamine condemns a link on which nothing gets through to the server. A call
// that waits for its reply sends nothing whose loss could be noticed, so runExamine
// makes a NULL call as well. Close joins it.
func (s *slot) runExamine(link transport.Link, probe bool, null transport.Call) {
	c := s.c
	defer c.wg.Done()
	var stalled error
	if l, ok := link.(transport.Stalling); ok {
		stalled = l.Stalled()
	}
	c.mu.Lock()
	s.examining = false
	condemn := stalled != nil && s.link == link && !s.condemned
	if condemn {
		s.condemned = true
		s.signal()
	}
	c.mu.Unlock()
	if condemn {
		c.cfg.Log.Warn(fmt.Sprintf("connection to %s is stalled, trying another: %v", c.cfg.Server, stalled))
	}
	if !probe {
		return
	}
	// The result does not matter: a reply says nothing about the calls that wait,
	// and the link itself reports its loss.
	_ = link.Exchange(context.Background(), c.xid.Add(1), &null)
	c.mu.Lock()
	if s.probed == link {
		s.probed = nil
	}
	c.mu.Unlock()
}
