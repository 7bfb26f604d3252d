package reconnect

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport"
)

// establish makes the calls that come first on a new link: those of
// Config.Establish and, of a transport whose links carry few calls until the
// first reply, a NULL call. That one is always answered. A call that waits for
// the link, because it was under way on the one before, may be one that the
// server does not answer, and all others would wait for its timeout. The first
// link of all needs no NULL call.
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
	return nil // a refusal is a reply as good as any
}
