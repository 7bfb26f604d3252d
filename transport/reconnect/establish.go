package reconnect

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport"
)

// establish makes the first calls on a new link: those of Config.Establish and,
// if the transport carries few calls until the first reply, a NULL call, which
// every server answers. Without it, a call that was outstanding on the previous
// link, and that the server does not answer, could be the first on this one, and
// delay all others until it times out. The first link of a Caller needs no NULL
// call.
func (c *Caller) establish(ctx context.Context, link transport.Link) error {
	answered := false
	call := func(ctx context.Context, call *transport.Call) error {
		err := link.Exchange(ctx, c.xid.Add(1), call)
		answered = answered || err == nil || errors.As(err, new(*transport.RPCError))
		return err
	}
	if c.cfg.Establish != nil {
		if err := c.cfg.Establish(ctx, call); err != nil {
			return err
		}
	}
	c.mu.Lock()
	needed := !answered && c.first > 0 && c.linked && c.prog != 0
	null := &transport.Call{Prog: c.prog, Vers: c.vers}
	c.mu.Unlock()
	if !needed {
		return nil
	}
	if err := call(ctx, null); !answered {
		return err
	}
	return nil // a refusal is a reply, too
}

// Redial ends the links that are up. Their calls go over new ones, which Config.Establish
// establishes.
func (c *Caller) Redial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slots {
		if s.link != nil && !s.condemned {
			s.condemned = true
			s.signal()
		}
	}
}
