package crew

import (
	"sync/atomic"
	"time"
)

const (
	// tick is after which time, at most twice as long, a call is seen to take long.
	tick = 2 * time.Millisecond
	// long is what calls take on the average that are better carried out beside each other.
	long = 200 * time.Microsecond
	// One call counts at most this much, and 1/weight, in the average.
	most   = 2 * time.Millisecond
	weight = 8
)

// Crew is the goroutines of one connection of a server's.
type Crew struct {
	// Start starts a member that receives. It is set before the first call.
	Start func()

	// state counts the beginnings and ends of calls, and the times that somebody was relieved. Odd: who receives carries out a call.
	state atomic.Uint64
	// took is the average time of a call in nanoseconds.
	took atomic.Int64

	// ticking: the timer runs, or its function does, which alone uses seen.
	ticking atomic.Bool
	seen    uint64
	timer   *time.Timer

	standby chan struct{}
}

// New returns a crew that has no member yet.
func New() *Crew {
	c := &Crew{standby: make(chan struct{})}
	c.timer = time.AfterFunc(time.Hour, c.look)
	c.timer.Stop()
	return c
}

// Turn is one call that a member carries out.
type Turn struct {
	n     uint64
	start time.Time
}

// Begin says that who receives goes on to carry out a call.
func (c *Crew) Begin() Turn {
	t := Turn{n: c.state.Add(1), start: time.Now()}
	if c.took.Load() > int64(long) {
		c.relieve(t.n)
	} else if !c.ticking.Load() && c.ticking.CompareAndSwap(false, true) {
		c.timer.Reset(tick)
	}
	return t
}

// Here reports whether the member with the turn t will receive again, unless it is relieved in the very moment.
func (c *Crew) Here(t Turn) bool { return c.state.Load() == t.n }

// End says that the call is over, and reports whether the member receives again. Otherwise it
// has been relieved, and stands by.
func (c *Crew) End(t Turn) (receives bool) {
	took := min(time.Since(t.start), most)
	old := c.took.Load()
	c.took.Store(old + (int64(took)-old)/weight) // who ends at the same time is not counted
	return c.state.CompareAndSwap(t.n, t.n+1)
}

// Relieve has somebody receive, if who did so carries out a call.
func (c *Crew) Relieve() {
	if n := c.state.Load(); n%2 == 1 {
		c.relieve(n)
	}
}

func (c *Crew) relieve(n uint64) {
	if !c.state.CompareAndSwap(n, n+1) {
		return
	}
	select {
	case c.standby <- struct{}{}:
	default:
		c.Start()
	}
}

// StandBy waits until the member is to receive, and returns false if done is closed first.
func (c *Crew) StandBy(done <-chan struct{}) bool {
	select {
	case <-c.standby:
		return true
	case <-done:
		return false
	}
}

// look is what the timer does: a call that it sees twice takes long. It stops when there was none.
func (c *Crew) look() {
	n := c.state.Load()
	if n != c.seen {
		c.seen = n
		c.timer.Reset(tick)
		return
	}
	if n%2 == 1 {
		c.relieve(n)
	}
	c.ticking.Store(false)
	// A call that has begun since may have found the timer running.
	if c.state.Load()%2 == 1 && c.ticking.CompareAndSwap(false, true) {
		c.timer.Reset(tick)
	}
}
