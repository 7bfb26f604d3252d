package session

import (
	"context"

	"github.com/rdmafs/rdmafs/transport"
)

// lane is whose call it is.
type lane uint8

const (
	// ordinary calls wait while the gate is closed. Slot 0 is not for them, unless there is
	// no other: with all slots taken by calls that are not answered, the lease is still renewed.
	ordinary lane = iota
	// renewal is ordinary, and may use slot 0.
	renewal
	// recovering calls pass the gate. They fail once the session is lost, instead
	// of waiting for the next one.
	recovering
)

// grant is a slot for one request.
type grant struct {
	inc  *incarnation
	slot int
	// seq and highest are sa_sequenceid and sa_highest_slotid: the same in each transmission.
	seq, highest uint32
	lane         lane
}

// waiter waits for a slot, or for the gate to open.
type waiter struct {
	lane  lane
	ready chan struct{} // closed once granted or refused
	grant grant
	err   error
}

// acquire waits for a slot.
func (s *Session) acquire(ctx context.Context, l lane) (grant, error) {
	if err := ctx.Err(); err != nil {
		return grant{}, &transport.Error{Fate: transport.NotSent, Err: err}
	}
	s.mu.Lock()
	if err := s.refused(l); err != nil {
		s.mu.Unlock()
		return grant{}, err
	}
	if len(s.waiting[l]) == 0 {
		if g, ok := s.take(l); ok {
			s.mu.Unlock()
			return g, nil
		}
	}
	w := &waiter{lane: l, ready: make(chan struct{})}
	s.waiting[l] = append(s.waiting[l], w)
	s.mu.Unlock()
	select {
	case <-w.ready:
		return w.grant, w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.ready:
		if w.err == nil {
			s.release(w.grant, false)
		}
	default:
		s.forget(w)
	}
	return grant{}, &transport.Error{Fate: transport.NotSent, Err: ctx.Err()}
}

// refused says why a call need not wait. mu is held.
func (s *Session) refused(l lane) error {
	switch {
	case s.closed:
		return &transport.Error{Fate: transport.NotSent, Err: transport.ErrClosed}
	case l == recovering && s.cur.dead:
		return ErrInterrupted
	}
	return nil
}

// take gives out a slot, if a call of the lane may have one now. mu is held.
func (s *Session) take(l lane) (grant, bool) {
	inc := s.cur
	if l != recovering && s.stopped {
		return grant{}, false
	}
	from := 0
	if l == ordinary && inc.slots.target > 1 {
		from = 1
	}
	n, ok := inc.slots.take(from)
	if !ok {
		return grant{}, false
	}
	if l != recovering {
		s.underWay++
	}
	return grant{inc: inc, slot: n, seq: inc.slots.all[n].seq, highest: uint32(inc.slots.highest()), lane: l}, true
}

// release gives a slot back after its request was answered, or was never sent. consumed: the
// server has carried it out under its sequence ID. mu is held.
func (s *Session) release(g grant, consumed bool) {
	g.inc.slots.give(g.slot, consumed)
	s.ended(g)
	s.dispatch()
}

// ended notes the end of a call, whose slot may stay parked. mu is held.
func (s *Session) ended(g grant) {
	if g.lane == recovering {
		return
	}
	if s.underWay--; s.underWay == 0 {
		signal(s.drained)
	}
}

// dispatch gives slots to those who wait, as far as there are any. mu is held.
func (s *Session) dispatch() {
	for _, l := range [...]lane{recovering, renewal, ordinary} {
		for len(s.waiting[l]) > 0 {
			g, ok := s.take(l)
			if !ok {
				break
			}
			w := s.waiting[l][0]
			s.forget(w)
			w.grant = g
			close(w.ready)
		}
	}
}

// fail ends the waiting of all calls of a lane. mu is held.
func (s *Session) fail(l lane, err error) {
	for _, w := range s.waiting[l] {
		w.err = err
		close(w.ready)
	}
	s.waiting[l] = nil
}

// forget takes a waiter out of its queue. mu is held.
func (s *Session) forget(w *waiter) {
	q := s.waiting[w.lane]
	for i := range q {
		if q[i] == w {
			copy(q[i:], q[i+1:])
			q[len(q)-1] = nil
			s.waiting[w.lane] = q[:len(q)-1]
			return
		}
	}
}

// signal puts a token into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
