package reconnect

import (
	"slices"
	"time"
)

// Health is what a Caller knows of its server at one moment.
type Health struct {
	// Connected: there is a link. Since is when that became so, or ceased to be so; zero
	// before the first attempt.
	Connected bool
	Since     time.Time
	// Links is how many links there are.
	Links int
	// SilentSince is when a call had taken too long (Config.Timeo and Retrans) and no reply
	// has come since; zero if the server answers.
	SilentSince time.Time
	// Failure is why there was last no link, or why one was lost, at FailedAt; nil if all went
	// well.
	Failure  error
	FailedAt time.Time
	// Waiting are the calls that have taken longer than Config.Probe, the oldest first.
	Waiting []Waiting
}

// Waiting is a call that waits.
type Waiting struct {
	// Proc is transport.Call.Counted.
	Prog, Proc uint32
	Begun      time.Time
	// Sent is how often it was sent; it waits for a connection if OnLink is false.
	Sent   int
	OnLink bool
}

// maxListed bounds Health.Waiting.
const maxListed = 256

// Health is what c knows of the server now.
func (c *Caller) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := Health{Failure: c.failure, FailedAt: c.failedAt, Since: c.downSince}
	for _, s := range c.slots {
		if s.usable() {
			h.Links++
		}
	}
	if h.Links > 0 {
		h.Connected, h.Since = true, c.upSince
	}
	if c.silent.Load() {
		h.SilentSince = time.Unix(0, c.silentSince.Load())
	}
	for o := range c.waiting {
		h.Waiting = append(h.Waiting, Waiting{o.prog, o.proc, o.begun, o.sent, o.on != nil})
	}
	slices.SortFunc(h.Waiting, func(a, b Waiting) int { return a.Begun.Compare(b.Begun) })
	h.Waiting = h.Waiting[:min(len(h.Waiting), maxListed)]
	return h
}

// Silent reports whether a call had taken too long and no reply has come since, as Health.SilentSince
// tells of it.
func (c *Caller) Silent() bool { return c.silent.Load() }

// noteUp notes a new link; mu is held.
func (c *Caller) noteUp() {
	if c.upSince.IsZero() || !c.downSince.IsZero() {
		c.upSince, c.downSince = c.cfg.Clock.Now(), time.Time{}
	}
}

// noteDown notes that a slot has lost its link or has not got one, which others may have; err is why, nil if its
// owner closed it. mu is held.
func (c *Caller) noteDown(err error) {
	now := c.cfg.Clock.Now()
	if err != nil {
		c.failure, c.failedAt = err, now
	}
	if c.downSince.IsZero() && !slices.ContainsFunc(c.slots, (*slot).usable) {
		c.downSince = now
	}
}

// list puts o among the calls that take long; Caller.mu is held.
func (o *op) list() {
	if o.listed {
		return
	}
	o.listed = true
	if o.c.waiting == nil {
		o.c.waiting = make(map[*op]struct{})
	}
	o.c.waiting[o] = struct{}{}
}

// unlist takes it out again; Caller.mu is held.
func (o *op) unlist() {
	if o.listed {
		o.listed = false
		delete(o.c.waiting, o)
	}
}
