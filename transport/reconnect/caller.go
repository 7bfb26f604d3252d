package reconnect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Caller makes calls over links that come and go. It implements
// transport.Caller.
type Caller struct {
	d     transport.Dialer
	cfg   Config
	slots []*slot
	first int // Limits.First
	// patience is what holds of the Config's now.
	patience atomic.Pointer[Patience]
	cancel   context.CancelFunc
	wg       sync.WaitGroup // runSlot, runExamine

	xid               atomic.Uint32
	resends, timeouts atomic.Uint64
	registrations     atomic.Uint64
	registered        atomic.Int64 // bytes
	// silent is set after the log has said that the server does not respond,
	// until a reply comes.
	silent atomic.Bool
	// silentSince is when that was, in nanoseconds since 1970.
	silentSince atomic.Int64
	ops         sync.Pool

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed and replaced when the state of a slot has changed
	turn    int           // where the search for a slot starts
	lastErr error         // why there was no link
	linked  bool          // there has been a link
	// prog and vers are those of a call.
	prog, vers uint32
	// waiting has the calls that have taken longer than Config.Probe; upSince and downSince
	// are when a slot was last connected, and when the last link was lost or the first
	// attempt failed; failure is why, and failedAt when that was last so.
	waiting            map[*op]struct{}
	upSince, downSince time.Time
	failure            error
	failedAt           time.Time
}

var _ transport.Caller = (*Caller)(nil)

// New returns a Caller; it takes d. Nothing is connected until the first call,
// or Connect.
func New(d transport.Dialer, cfg Config) *Caller {
	cfg.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Caller{d: d, cfg: cfg, first: d.Limits().First, cancel: cancel, changed: make(chan struct{})}
	c.xid.Store(rand.Uint32())
	c.SetPatience(Patience{cfg.Timeo, cfg.Retrans, cfg.Soft, cfg.SoftErr})
	for range cfg.NConnect {
		s := &slot{c: c, wake: make(chan struct{}, 1)}
		c.slots = append(c.slots, s)
		c.wg.Add(1)
		go s.runSlot(ctx)
	}
	return c
}

// SetPatience changes how long is waited. A call under way goes by it from its next wait on;
// the time after which it has taken too long stays for once.
func (c *Caller) SetPatience(p Patience) {
	p.setDefaults()
	c.patience.Store(&p)
}

// Connect makes sure that there is a link, and returns why there cannot be one
// after a single attempt.
func (c *Caller) Connect(ctx context.Context) error {
	s := c.slots[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	for before := s.attempts; ; {
		switch {
		case c.closed:
			return transport.ErrClosed
		case s.usable():
			return nil
		case s.attempts > before && s.err != nil:
			return s.err
		}
		s.want()
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// usable reports whether calls can be sent over the slot's link. Caller.mu is held.
func (s *slot) usable() bool {
	if s.link == nil || s.condemned {
		return false
	}
	select {
	case <-s.link.Done():
		return false
	default:
		return true
	}
}

// want requests a link from runSlot if there is none. Caller.mu is held.
func (s *slot) want() {
	if s.link == nil && !s.wanted {
		s.wanted = true
		s.signal()
	}
}

// pick returns the usable slot with the fewest calls, round robin among equals, or
// nil if there is none. If a slot without a link has fewer calls, it is made to
// connect. After a failed attempt only the first slot connects, until it has
// succeeded. mu is held.
func (c *Caller) pick() *slot {
	var best, ready *slot
	for i := range c.slots {
		s := c.slots[(c.turn+i)%len(c.slots)]
		if best == nil || s.load < best.load {
			best = s
		}
		if s.usable() && (ready == nil || s.load < ready.load) {
			ready = s
		}
	}
	c.turn = (c.turn + 1) % len(c.slots)
	if ready == nil && c.lastErr != nil {
		best = c.slots[0]
	}
	if best != ready {
		best.want()
	}
	return ready
}

// wakeWaiters wakes all calls that wait for a link.
func (c *Caller) wakeWaiters() {
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
}

// Register makes an arena usable on all links.
func (c *Caller) Register(a *mem.Arena) error {
	err := c.d.Register(a)
	if err == nil {
		c.registrations.Add(1)
		c.registered.Add(int64(a.Len()))
	}
	return err
}

// Unregister undoes Register.
func (c *Caller) Unregister(a *mem.Arena) error {
	err := c.d.Unregister(a)
	if err == nil {
		c.registered.Add(-int64(a.Len()))
	}
	return err
}

// Limits are those of one link, with room for calls on all of them.
func (c *Caller) Limits() transport.Limits {
	l := c.d.Limits()
	l.Concurrent *= len(c.slots)
	return l
}

// Stats sums over all links.
func (c *Caller) Stats() transport.Stats {
	s := c.d.Stats()
	s.Resends += c.resends.Load()
	s.Timeouts += c.timeouts.Load()
	s.Registrations += c.registrations.Load()
	s.RegisteredBytes += uint64(c.registered.Load())
	return s
}

// Close ends every connection, and the dialer. Outstanding calls fail.
func (c *Caller) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return fmt.Errorf("reconnect: %w twice", transport.ErrClosed)
	}
	c.cancel()
	c.wg.Wait()
	c.wakeWaiters()
	return c.d.Close()
}
