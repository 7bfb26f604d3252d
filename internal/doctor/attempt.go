package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
)

// attempt is a way to the server, and what became of connecting over it.
type attempt struct {
	Way
	at      netip.Addr
	contact Contact // nil when it could not even be opened
	link    transport.Link
	openErr error // of Open
	err     error // of Connect, or of the calls
	section Section
}

func (c *attempt) works() bool { return c.openErr == nil && c.err == nil }

func (c *attempt) String() string {
	return fmt.Sprintf("%s to %s", c.Name, netip.AddrPortFrom(c.at, c.Port))
}

// connectAll connects over all ways at once, each to the first address that
// answers.
func (e *examination) connectAll(ctx context.Context, addrs []netip.Addr) {
	e.found = make([]attempt, len(e.Ways))
	var running sync.WaitGroup
	for i, w := range e.Ways {
		e.found[i] = attempt{Way: w}
		running.Add(1)
		go e.runConnect(ctx, &e.found[i], addrs, &running)
	}
	running.Wait()
}

func (e *examination) runConnect(ctx context.Context, c *attempt, addrs []netip.Addr, done *sync.WaitGroup) {
	defer done.Done()
	for _, a := range addrs {
		c.close()
		c.at = a
		if e.connect(ctx, c); c.works() {
			return
		}
	}
}

// connect opens the way to c.at and connects.
func (e *examination) connect(ctx context.Context, c *attempt) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	if c.contact, c.openErr = c.Open(ctx, c.at); c.openErr == nil {
		c.link, c.err = c.contact.Connect(ctx)
	}
}

func (c *attempt) disconnect() {
	if c.link != nil {
		_ = c.link.Close()
		c.link = nil
	}
}

func (c *attempt) close() {
	c.disconnect()
	if c.contact != nil {
		c.contact.Close()
		c.contact = nil
	}
}

func (e *examination) closeAll() {
	for i := range e.found {
		e.found[i].close()
	}
}

// working is the first way that works among those that the mount may take, or
// among the others.
func (e *examination) working(chosen bool) *attempt {
	for i := range e.found {
		if c := &e.found[i]; c.Chosen == chosen && c.works() {
			return c
		}
	}
	return nil
}
