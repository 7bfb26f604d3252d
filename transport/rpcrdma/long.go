package rpcrdma

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// longUnit is the granularity of leases from a longPool.
const longUnit = 4096

// longPool lends stretches of one registered arena for what fits no inline
// buffer: reply chunks, and calls in one piece. It is bounded; who finds no room
// waits, first come, first served. A stretch must not come back while a peer
// can still reach it.
type longPool struct {
	arena *mem.Arena

	mu sync.Mutex
	// free is sorted by offset; no two extents touch.
	free    []extent
	waiters []*longWaiter
	leased  int
}

type extent struct{ off, len int }

type longWaiter struct {
	n       int
	granted chan mem.Seg
}

func newLongPool(a *mem.Arena) *longPool {
	n := a.Len() / longUnit * longUnit
	return &longPool{arena: a, free: []extent{{0, n}}}
}

func longRound(n int) int { return (n + longUnit - 1) / longUnit * longUnit }

// tooLongError says that a message needs more than the pool ever has.
type tooLongError struct{ need, have int }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes exceeds the %d there are for long messages", e.need, e.have)
}

// lease lends n bytes; they may hold what was there before. It waits for room
// until ctx or dead ends. No bytes are the empty Seg, which does not come back.
func (p *longPool) lease(ctx context.Context, dead <-chan struct{}, n int) (mem.Seg, error) {
	if n == 0 {
		return mem.Seg{}, nil
	}
	if n > p.arena.Len() {
		return mem.Seg{}, &tooLongError{need: n, have: p.arena.Len()}
	}
	p.mu.Lock()
	if len(p.waiters) == 0 {
		if s, ok := p.take(n); ok {
			p.mu.Unlock()
			return s, nil
		}
	}
	w := &longWaiter{n: n, granted: make(chan mem.Seg, 1)}
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()
	var err error
	select {
	case s := <-w.granted:
		return s, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-dead:
		err = errLinkDead
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiters {
		if other == w {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			p.serve() // the next in line may need less
			return mem.Seg{}, err
		}
	}
	p.give(<-w.granted)
	return mem.Seg{}, err
}

// release takes back what lease lent.
func (p *longPool) release(s mem.Seg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.give(s)
}

// take finds the first stretch that n bytes fit into. p.mu is held.
func (p *longPool) take(n int) (mem.Seg, bool) {
	need := longRound(n)
	for i := range p.free {
		e := &p.free[i]
		if e.len < need {
			continue
		}
		s := p.arena.Seg(e.off, n)
		e.off, e.len = e.off+need, e.len-need
		if e.len == 0 {
			p.free = append(p.free[:i], p.free[i+1:]...)
		}
		p.leased++
		return s, true
	}
	return mem.Seg{}, false
}

// give puts s back and serves those who wait. p.mu is held.
func (p *longPool) give(s mem.Seg) {
	e := extent{s.Off, longRound(s.Len)}
	i := 0
	for i < len(p.free) && p.free[i].off < e.off {
		i++
	}
	if i > 0 && p.free[i-1].off+p.free[i-1].len > e.off || i < len(p.free) && e.off+e.len > p.free[i].off {
		panic(fmt.Sprintf("rpcrdma: long buffer at %d returned twice", s.Off))
	}
	p.leased--
	p.free = append(p.free, extent{})
	copy(p.free[i+1:], p.free[i:])
	p.free[i] = e
	if i+1 < len(p.free) && e.off+e.len == p.free[i+1].off {
		p.free[i].len += p.free[i+1].len
		p.free = append(p.free[:i+1], p.free[i+2:]...)
	}
	if i > 0 && p.free[i-1].off+p.free[i-1].len == e.off {
		p.free[i-1].len += p.free[i].len
		p.free = append(p.free[:i], p.free[i+1:]...)
	}
	p.serve()
}

// serve grants what the first in line waits for, as long as there is room.
// p.mu is held.
func (p *longPool) serve() {
	for len(p.waiters) > 0 {
		s, ok := p.take(p.waiters[0].n)
		if !ok {
			return
		}
		p.waiters[0].granted <- s
		p.waiters = append(p.waiters[:0], p.waiters[1:]...)
	}
}
