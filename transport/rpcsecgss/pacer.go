package rpcsecgss

import (
	"context"
	"slices"
	"sync"
)

// pacer gives out the sequence numbers of one context, so that none arrives below the
// server's window (RFC 2203 section 5.3.3.1): no more calls than half the window are
// outstanding, and no call begins while a number that is a quarter of the window behind
// has not been sent. Between a number and its sending stand encoding and the wait for the
// connection, in which other calls may come and go.
type pacer struct {
	limit, lag int

	mu       sync.Mutex
	next     uint32
	inFlight int
	// unsent are the numbers given out and not known to be sent, the lowest first.
	unsent []uint32
	// waiters are who waits to enter, the first first. Each is closed when it is in.
	waiters []chan struct{}
}

func newPacer(window uint32) *pacer {
	w := int(min(window, 1<<12))
	return &pacer{limit: max(1, w/2), lag: max(1, w/4), next: 1}
}

// enter waits until a call may begin. leave must follow if it returns nil.
func (p *pacer) enter(ctx context.Context, done <-chan struct{}) error {
	p.mu.Lock()
	if len(p.waiters) == 0 && p.open() {
		p.inFlight++
		p.mu.Unlock()
		return nil
	}
	in := make(chan struct{})
	p.waiters = append(p.waiters, in)
	p.mu.Unlock()
	var err error
	select {
	case <-in:
		return nil
	case <-done:
		err = errLinkEnded
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiters, in); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	} else {
		p.inFlight--
	}
	p.admit()
	return err
}

// open reports whether another call may begin. mu is held.
func (p *pacer) open() bool {
	return p.inFlight < p.limit && (len(p.unsent) == 0 || int64(p.next)-int64(p.unsent[0]) < int64(p.lag))
}

// admit lets in who may begin. mu is held.
func (p *pacer) admit() {
	for len(p.waiters) > 0 && p.open() {
		p.inFlight++
		close(p.waiters[0])
		p.waiters = slices.Delete(p.waiters, 0, 1)
	}
}

// number gives out the next number.
func (p *pacer) number() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next
	p.next++
	p.unsent = append(p.unsent, n)
	return n
}

// sent says that nothing given out later can overtake these numbers any more.
func (p *pacer) sent(numbers []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range numbers {
		if i, found := slices.BinarySearch(p.unsent, n); found {
			p.unsent = slices.Delete(p.unsent, i, i+1)
		}
	}
	p.admit()
}

// leave ends a call, and whatever was given out for it. last reports whether it was the
// last one.
func (p *pacer) leave(numbers []uint32) (last bool) {
	p.sent(numbers)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	p.admit()
	return p.inFlight == 0
}

// used is how many numbers were given out.
func (p *pacer) used() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// idle reports whether no call is under way.
func (p *pacer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight == 0
}
