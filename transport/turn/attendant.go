package turn

import "time"

// tick is how often the attendant looks while callers receive. An idle connection is
// watched again after two ticks at most, and the end of a leader's context
// noticed after one. While one leader waits for long the ticks become longer, up to maxTick, and the attendant waits for
// the end of that context itself: a call that hangs costs a few wake-ups a second.
const (
	tick    = 10 * time.Millisecond
	maxTick = 32 * tick
)

// Attendant is the goroutine that receives while no caller does. Its methods are
// for that goroutine alone.
type Attendant struct {
	t     *Turn
	timer *time.Timer
}

// Attendant returns that of t, of which there is one. It does not have the turn.
func (t *Turn) Attendant() *Attendant {
	return &Attendant{t: t, timer: time.NewTimer(t.tick)}
}

// Take waits until the attendant is needed, and takes the turn: when somebody
// expects something, or when no caller has taken it for a while. It returns false,
// without the turn, once done is closed.
func (a *Attendant) Take(done <-chan struct{}) bool {
	t := a.t
	interval := t.tick
	var over <-chan struct{} // the end of the leader's context, once it has waited for long
	for seen := t.led.Load(); ; {
		a.timer.Reset(interval)
		select {
		case <-done:
			a.timer.Stop()
			return false
		case <-t.summons:
		case <-t.handed:
			t.attended.Add(1)
			return true
		case <-over:
			t.watchLeader(false)
			over, interval = nil, t.tick
			continue
		case <-a.timer.C:
			n := t.led.Load()
			end, waits := t.watchLeader(n == seen)
			if n != seen {
				seen, over, interval = n, nil, t.tick
				continue
			}
			if waits {
				over, interval = end, min(2*interval, maxTick)
			}
		}
		if t.held.CompareAndSwap(false, true) {
			t.attended.Add(1)
			return true
		}
	}
}

// watchLeader interrupts the leader if its context has ended. Otherwise waits reports whether there is a leader with a context, and
// end, only with long, is that context's Done: asking each context for it costs more than most waits.
// watchLeader finds the leader and uses the context under the lock, without which a caller cannot forget it: a waiter that its
// caller has given back may wait on another connection, and the context serve another request.
func (t *Turn) watchLeader(long bool) (end <-chan struct{}, waits bool) {
	end, waits, ended := t.leaderWaits(long)
	if ended {
		t.interrupt()
	}
	return end, waits
}

// leaderWaits is what watchLeader looks at.
func (t *Turn) leaderWaits(long bool) (end <-chan struct{}, waits, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.leader.Load()
	if w == nil || w.ctx == nil {
		return nil, false, false
	}
	if w.ctx.Err() != nil {
		return nil, false, true
	}
	if long {
		end = w.ctx.Done()
	}
	return end, true, false
}

// Next is called when the attendant, which has the turn, has received something. woke: a caller is woken by it. Next
// reports whether the attendant keeps the turn; otherwise it has given it up, since there are callers who receive.
func (a *Attendant) Next(woke bool) bool {
	t := a.t
	if t.others.Load() > 0 || !woke && t.following.Load() == 0 {
		return true
	}
	t.release()
	return false
}

// Leave gives up the turn.
func (a *Attendant) Leave() { a.t.release() }

// End waits until nobody has the turn, and takes it for good. The connection has ended, so that
// who has it leaves.
func (a *Attendant) End() {
	t := a.t
	t.others.Add(1)
	for !t.held.CompareAndSwap(false, true) {
		select {
		case <-t.summons:
		case <-t.handed:
			return
		}
	}
}
