package turn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Turn is whose turn it is to receive from one connection.
type Turn struct {
	// held: somebody has the turn, or it is on its way to a follower. leader is who, if it is a caller.
	held   atomic.Bool
	leader atomic.Pointer[Waiter]
	// led counts how often a caller has got the turn, attended how often the attendant.
	led, attended atomic.Uint64
	// following is the length of the list, others how many wait who cannot receive: see Expect.
	following, others atomic.Int32
	// summons has a token when the attendant is to look, handed when it has been given the turn.
	summons, handed chan struct{}
	// interrupt ends what the leader waits for on the connection.
	interrupt func()
	// tick is the constant, but in tests.
	tick time.Duration

	// mu guards what follows, and all waiters; it is lent by the owner.
	mu *sync.Mutex
	// newest is the follower that began last, of the list.
	newest *Waiter
}

// Waiter is a caller that waits for something that comes by the connection.
type Waiter struct {
	// Woke has a token when the caller is to look again: what it waits for has
	// happened, or it has the turn.
	Woke chan struct{}

	// leads: the caller has the turn. Unless the waiter is listed, it is the caller's.
	leads bool

	// What follows is guarded by Turn.mu.

	ctx          context.Context
	listed       bool
	older, newer *Waiter
}

// NewWaiter returns a waiter that does not wait.
func NewWaiter() Waiter { return Waiter{Woke: make(chan struct{}, 1)} }

// Init sets the context that the caller waits with; while it leads, its end is noticed by the attendant.
// The lock given to New is held.
func (w *Waiter) Init(ctx context.Context) { w.ctx = ctx }

// Clear forgets that context. The lock given to New is held.
func (w *Waiter) Clear() { w.ctx = nil }

// Wake has the caller look again.
func (w *Waiter) Wake() {
	select {
	case w.Woke <- struct{}{}:
	default:
	}
}

// New returns a turn that nobody has. mu guards followers. interrupt is called, without mu, to make the leader look at its
// context.
func New(mu *sync.Mutex, interrupt func()) *Turn {
	return &Turn{mu: mu, interrupt: interrupt, tick: tick, summons: make(chan struct{}, 1), handed: make(chan struct{}, 1)}
}

// take takes the turn for w if it is free, and reports whether w has it.
func (t *Turn) take(w *Waiter) bool {
	if w.leads {
		return true
	}
	if !t.held.CompareAndSwap(false, true) {
		return false
	}
	t.give(w)
	return true
}

func (t *Turn) give(w *Waiter) {
	w.leads = true
	t.leader.Store(w)
	t.led.Add(1)
}

// Follow takes the turn for w if it is free, or makes w a follower, which may get the turn when who has it does not need it
// any more. It takes the lock given to New only if the turn is not free at once.
func (t *Turn) Follow(w *Waiter) (leads bool) {
	if t.take(w) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.following.Add(1)
	if t.take(w) {
		t.following.Add(-1)
		return true
	}
	t.list(w)
	return false
}

// list makes w the newest follower. The lock given to New is held.
func (t *Turn) list(w *Waiter) {
	w.listed, w.older = true, t.newest
	if w.older != nil {
		w.older.newer = w
	}
	t.newest = w
}

// HandOver gives the turn of w to the attendant, and makes w a follower. The lock given to New is held.
func (t *Turn) HandOver(w *Waiter) {
	w.leads = false
	t.leader.Store(nil)
	t.following.Add(1)
	t.list(w)
	t.handed <- struct{}{} // there is room: who has the turn sends
}

// Unlist ends what Follow has begun, but not what comes of it: w may have got the turn by then. The lock
// given to New is held.
func (t *Turn) Unlist(w *Waiter) {
	if !w.listed {
		return
	}
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		t.newest = w.older
	}
	if w.older != nil {
		w.older.newer = w.newer
	}
	w.listed, w.older, w.newer = false, nil, nil
	t.following.Add(-1)
}

// Leave gives up the turn, if w has it: w is not listed, and waits no more.
func (t *Turn) Leave(w *Waiter) {
	if w.leads {
		w.leads = false
		t.leader.Store(nil)
		t.release()
	}
}

// release passes the turn to a follower, and frees it if there is none. The
// attendant is summoned then if anything is expected of it.
func (t *Turn) release() {
	for {
		// Who begins to wait now sees that the turn is free, or is seen here.
		t.held.Store(false)
		if t.following.Load() == 0 {
			if t.others.Load() > 0 {
				t.summon()
			}
			return
		}
		if !t.held.CompareAndSwap(false, true) {
			return
		}
		t.mu.Lock()
		w := t.newest
		if w != nil {
			t.Unlist(w)
			t.give(w)
		}
		t.mu.Unlock()
		if w != nil {
			w.Wake()
			return
		}
	}
}

// Expect says that somebody waits for something of the connection who cannot
// receive, until Unexpect: in between, somebody has the turn.
func (t *Turn) Expect() {
	t.others.Add(1)
	if !t.held.Load() {
		t.summon()
	}
}

// Unexpect is the end of an Expect.
func (t *Turn) Unexpect() { t.others.Add(-1) }

func (t *Turn) summon() {
	select {
	case t.summons <- struct{}{}:
	default:
	}
}

// Led is how often a caller has got the turn.
func (t *Turn) Led() uint64 { return t.led.Load() }

// Attended is how often the attendant has.
func (t *Turn) Attended() uint64 { return t.attended.Load() }
