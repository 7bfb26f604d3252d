package reconnect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// op is one outstanding call.
type op struct {
	c     *Caller
	timer Timer
	wake  chan struct{} // holds a token when the timer has expired

	// Of the caller's goroutine.
	fate  transport.Fate
	late  bool // a link was condemned because the reply did not come
	waits int  // timeouts since the last major one
	// resends and timeouts are those of this call.
	resends, timeouts int
	major             time.Time // when the call has taken too long
	begun             time.Time // when it was made

	// Guarded by Caller.mu.
	armed    bool
	deadline time.Time
	on       *slot // whose link carries the call
	link     transport.Link
	listed   bool // it is in Caller.waiting
	sent     int  // how often it was on a link
	prog     uint32
	proc     uint32
}

// Call sends c until there is an answer.
func (c *Caller) Call(ctx context.Context, call *transport.Call) error {
	o := c.newOp()
	defer o.free()
	call.Trip, call.Timed = transport.Trip{}, c.cfg.Slow > 0
	err := c.transact(ctx, o, call)
	c.account(ctx, o, call, err)
	return err
}

func (c *Caller) transact(ctx context.Context, o *op, call *transport.Call) error {
	xid := c.xid.Add(1)
	for {
		s, link, err := c.acquire(ctx, o, call)
		if err != nil {
			c.givenUp(ctx)
			return &transport.Error{Fate: o.fate, Err: err}
		}
		if o.fate == transport.Unknown {
			c.resends.Add(1)
			o.resends++
			call.Resent = true
		}
		if !o.late {
			err = link.Exchange(ctx, xid, call)
		} else {
			err = link.ExchangeOverdue(ctx, xid, call)
		}
		o.leave(s)
		if err == nil {
			c.noteReply(s)
			return nil
		}
		var e *transport.Error
		if !errors.As(err, &e) || e.Fate == transport.Answered {
			if !errors.Is(err, transport.ErrProtocol) {
				c.noteReply(s)
			}
			return err
		}
		o.fate = max(o.fate, e.Fate)
		if gone := ctx.Err(); gone != nil {
			c.givenUp(ctx)
			return &transport.Error{Fate: o.fate, Err: gone}
		}
		lost := link.Err()
		if lost == nil {
			// The link lives: it is the call that is at fault.
			return &transport.Error{Fate: o.fate, Err: e.Err}
		}
		s.logLoss(link, lost)
		if !c.cfg.Clock.Now().Before(o.deadline) {
			o.late = true
			o.waits++
			o.timeouts++
			c.timeouts.Add(1)
			if err := c.tooLong(o); err != nil {
				return &transport.Error{Fate: o.fate, Err: err}
			}
		}
	}
}

// acquire waits for a link and puts o on it.
func (c *Caller) acquire(ctx context.Context, o *op, call *transport.Call) (*slot, transport.Link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed {
			return nil, nil, transport.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		c.prog, c.vers = call.Prog, call.Vers
		o.prog, o.proc = call.Prog, call.Counted()
		if s := c.pick(); s != nil {
			s.load++
			o.sent++
			p := c.patience.Load()
			wait := p.Timeo * time.Duration(min(o.waits, p.Retrans)+1)
			least := time.Duration(1)
			if !p.Soft {
				least = p.Timeo // this link is not to pay for the time without one
			}
			o.arm(s, min(wait, max(o.major.Sub(c.cfg.Clock.Now()), least)))
			return s, s.link, nil
		}
		o.arm(nil, max(o.major.Sub(c.cfg.Clock.Now()), 1))
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-o.wake:
		}
		err := c.tooLong(o)
		c.mu.Lock()
		if err != nil {
			return nil, nil, err
		}
	}
}

// tooLong returns an error if a call of a soft mount has taken too long, and logs
// once that one of a hard mount has.
func (c *Caller) tooLong(o *op) error {
	now := c.cfg.Clock.Now()
	if now.Before(o.major) {
		return nil
	}
	c.mu.Lock()
	last := c.lastErr
	c.mu.Unlock()
	p := c.patience.Load()
	if p.Soft {
		timeout := transport.ErrTimeout
		if p.SoftErr {
			timeout = transport.ErrTimedOut
		}
		if last != nil {
			return fmt.Errorf("%s: %w (%w)", c.cfg.Server, timeout, last)
		}
		return fmt.Errorf("%s: %w", c.cfg.Server, timeout)
	}
	o.waits, o.major = 0, now.Add(p.Major())
	c.noteSilence(last)
	return nil
}

// givenUp notes that a call has taken too long if that is the cause with which its context has ended.
func (c *Caller) givenUp(ctx context.Context) {
	if context.Cause(ctx) != transport.ErrTimeout || c.patience.Load().Soft {
		return
	}
	c.mu.Lock()
	last := c.lastErr
	c.mu.Unlock()
	c.noteSilence(last)
}

// noteSilence logs, once until a reply comes, that the server does not respond; last is why there
// was last no link.
func (c *Caller) noteSilence(last error) {
	if !c.silent.CompareAndSwap(false, true) {
		return
	}
	c.silentSince.Store(c.cfg.Clock.Now().UnixNano())
	why := ""
	if last != nil {
		why = fmt.Sprintf(" (%v)", last)
	}
	c.cfg.Log.Warn(fmt.Sprintf("server %s not responding, still trying%s", c.cfg.Server, why))
}

// logLoss logs, once, that calls were outstanding on a link when it was lost.
func (s *slot) logLoss(link transport.Link, why error) {
	if errors.Is(why, transport.ErrClosed) {
		return // closed on purpose: condemned, or with the Caller
	}
	s.c.mu.Lock()
	first := s.lossLogged != link
	s.lossLogged = link
	s.c.mu.Unlock()
	if first {
		s.c.cfg.Log.Warn(fmt.Sprintf("connection to %s lost: %v", s.c.cfg.Server, why))
	}
}

// noteReply records that a valid reply has come on the link of s.
func (c *Caller) noteReply(s *slot) {
	if !s.replied.Load() {
		s.replied.Store(true)
	}
	if c.silent.Load() && c.silent.CompareAndSwap(true, false) {
		c.cfg.Log.Info(fmt.Sprintf("server %s OK", c.cfg.Server))
	}
}

func (c *Caller) newOp() *op {
	o, _ := c.ops.Get().(*op)
	if o == nil {
		o = &op{c: c, wake: make(chan struct{}, 1)}
	}
	o.fate, o.late, o.waits, o.resends, o.timeouts, o.sent = transport.NotSent, false, 0, 0, 0, 0
	o.begun = c.cfg.Clock.Now()
	o.major = o.begun.Add(c.patience.Load().Major())
	return o
}

// arm sets the timer for a call on the link of s, or for one that waits for a
// link if s is nil. Caller.mu is held.
func (o *op) arm(s *slot, d time.Duration) {
	o.armed, o.on, o.link = true, s, nil
	o.deadline = o.c.cfg.Clock.Now().Add(d)
	if s != nil {
		o.link = s.link
	}
	d = min(d, o.c.cfg.Probe)
	if o.timer == nil {
		o.timer = o.c.cfg.Clock.AfterFunc(d, o.expire)
	} else {
		o.timer.Reset(d)
	}
}

// expire condemns the link if the call's deadline has passed, and examines it
// before that. The timer may have been set again, or o may have been reused for
// another call, since it fired.
func (o *op) expire() {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if !o.armed {
		return
	}
	o.list()
	if left := o.deadline.Sub(o.c.cfg.Clock.Now()); left > 0 {
		switch s := o.on; {
		case s == nil:
			o.timer.Reset(left)
		case s.link == o.link:
			o.timer.Reset(min(left, o.c.cfg.Probe))
			s.examine()
		}
		return
	}
	if s := o.on; s != nil && s.link == o.link {
		s.condemned = true
		s.signal()
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// leave ends the use of the link by o.
func (o *op) leave(s *slot) {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	s.load--
	o.armed = false
	o.timer.Stop()
}

// free ends o.
func (o *op) free() {
	o.c.mu.Lock()
	o.armed, o.on, o.link = false, nil, nil
	o.unlist()
	if o.timer != nil {
		o.timer.Stop()
	}
	o.c.mu.Unlock()
	o.c.ops.Put(o)
}
