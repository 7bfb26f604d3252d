package reconnect

import (
	"context"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/account"
)

// account counts a call that has ended, and logs it if it was slow.
func (c *Caller) account(ctx context.Context, o *op, call *transport.Call, err error) {
	if c.cfg.Account == nil && c.cfg.Slow <= 0 {
		return
	}
	now := c.cfg.Clock.Now()
	s := account.Spent{
		Queue: now.Sub(o.begun), Sent: call.Trip.BytesSent, Received: call.Trip.BytesReceived,
		Resends: o.resends, Timeouts: o.timeouts,
		Failed: err != nil || call.Status != nil && *call.Status != 0,
	}
	if sent := call.Trip.Sent; !sent.IsZero() {
		s.Queue, s.Trip = max(sent.Sub(o.begun), 0), now.Sub(sent)
	}
	c.cfg.Account.Add(call.Prog, call.Counted(), &s)
	if c.cfg.Slow > 0 && s.Queue+s.Trip >= c.cfg.Slow {
		c.logSlow(ctx, call, &s, err)
	}
}

// logSlow logs a call that took long.
func (c *Caller) logSlow(ctx context.Context, call *transport.Call, s *account.Spent, err error) {
	program, procedure := c.cfg.Account.Name(call.Prog, call.Counted())
	about := ""
	if subject, ok := ctx.Value(transport.Subject{}).(func() string); ok {
		about = " of " + subject()
	}
	end := ""
	if err != nil {
		end = fmt.Sprintf(", and failed: %v", err)
	}
	wire, reply := s.Trip, time.Duration(0)
	if at := call.Trip.Replied; !at.IsZero() {
		wire = at.Sub(call.Trip.Sent)
		reply = max(s.Trip-wire, 0)
	}
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	c.cfg.Log.Warn(fmt.Sprintf("slow call: %s %s%s to %s took %v: queue %v, wire %v, reply %v, %d resends, %d bytes sent, %d received%s",
		program, procedure, about, c.cfg.Server, round(s.Queue+s.Trip), round(s.Queue), round(wire), round(reply), s.Resends, s.Sent, s.Received, end))
}
