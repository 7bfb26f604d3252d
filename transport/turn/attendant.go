package turn

import "time"

// tick is how often the attendant looks while callers receive. An idle connection is
// watched again after two ticks at most, and the end of a leader's context
// noticed after one.
const tick = 10 * time.Millisecond

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
	for seen := t.led.Load(); ; {
		a.timer.Reset(t.tick)
		select {
		case <-done:
			a.timer.Stop()
			return false
		case <-t.summons:
		case <-t.handed:
			t.attended.Add(1)
			return true
		case <-a.timer.C:
			t.watchLeader()
			if n := t.led.Load(); n != seen {
				seen = n
				continue
			}
		}
		if t.held.CompareAndSwap(false, true) {
			t.attended.Add(1)
			return true
		}
	}
}

// watchLeader interrupts the leader if its context has ended. To watch each context costs more than
// most waits.
func (t *Turn) watchLeader() {
	w := t.leader.Load()
	if w == nil {
		return
	}
	t.mu.Lock()
	ctx := w.ctx
	t.mu.Unlock()
	if ctx != nil && ctx.Err() != nil {
		t.interrupt()
	}
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
