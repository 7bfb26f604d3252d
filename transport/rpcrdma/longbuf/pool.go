package longbuf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Unit is the granularity of leases: a page, so that payloads start on one.
const Unit = 4096

var (
	// ErrTooLarge: more than the account, or the pool, ever has.
	ErrTooLarge = errors.New("lease exceeds what may be held")
	// ErrNone: not now.
	ErrNone = errors.New("no transfer memory free")
	// ErrEnded: a wait was over before there was memory.
	ErrEnded = errors.New("ended while waiting for memory")
)

// Stats is how a pool's memory is used, in bytes.
type Stats struct {
	Size, Used, Peak int
	// Leases is how many are out; Waits counts those that had to wait.
	Leases int
	Waits  uint64
}

// Pool lends contiguous stretches of one arena. Leases that find no room wait in order of arrival, so that a large one is
// not starved by small ones; one that waits because its own account holds too much does not hold up other accounts. A
// stretch must not come back while a peer can still reach it.
type Pool struct {
	Arena *mem.Arena

	mu    sync.Mutex
	free  []mem.Seg // ascending, never touching
	queue []*waiter
	round uint64
	stats Stats
}

// Account bounds what one user of a pool may hold, in bytes. The pool's mutex guards what is not exported.
type Account struct {
	Limit      int
	used, peak int
	// stuck is the round of serve that last found it at its limit.
	stuck uint64
}

type waiter struct {
	acct  *Account
	n     int
	ready chan mem.Seg // of capacity 1
}

// New makes a pool of the whole units of a, which it takes.
func New(a *mem.Arena) *Pool {
	n := a.Len() / Unit * Unit
	return &Pool{Arena: a, free: []mem.Seg{a.Seg(0, n)}, stats: Stats{Size: n}}
}

// RoundUp is the least multiple of unit that is not less than n.
func RoundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// Lease lends n bytes, rounded up to whole units; they may hold what was there before. It waits for them until ctx ends, or
// ended is closed (ErrEnded). It never waits for what cannot come (ErrTooLarge). No bytes are the empty Seg, which does
// not come back.
func (p *Pool) Lease(ctx context.Context, ended <-chan struct{}, acct *Account, n int) (mem.Seg, error) {
	if n == 0 {
		return mem.Seg{}, nil
	}
	n = RoundUp(n, Unit)
	p.mu.Lock()
	if n > acct.Limit || n > p.stats.Size {
		p.mu.Unlock()
		return mem.Seg{}, ErrTooLarge
	}
	if len(p.queue) == 0 {
		if s, ok := p.take(acct, n); ok {
			p.mu.Unlock()
			return s, nil
		}
	}
	w := &waiter{acct: acct, n: n, ready: make(chan mem.Seg, 1)}
	p.queue = append(p.queue, w)
	p.serve()
	if len(w.ready) == 0 {
		p.stats.Waits++
	}
	p.mu.Unlock()
	var err error
	select {
	case s := <-w.ready:
		return s, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-ended:
		err = ErrEnded
	}
	p.mu.Lock()
	i := slices.Index(p.queue, w)
	if i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.serve() // those behind may have waited for it alone
	}
	p.mu.Unlock()
	if i < 0 {
		p.Release(acct, <-w.ready)
	}
	return mem.Seg{}, err
}

// Try is Lease that does not wait, nor overtake those that do.
func (p *Pool) Try(acct *Account, n int) (mem.Seg, error) {
	n = RoundUp(n, Unit)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > acct.Limit {
		return mem.Seg{}, ErrTooLarge
	}
	if len(p.queue) == 0 {
		if s, ok := p.take(acct, n); ok {
			return s, nil
		}
	}
	return mem.Seg{}, ErrNone
}

// take finds the first stretch that n bytes fit into. p.mu is held.
func (p *Pool) take(acct *Account, n int) (mem.Seg, bool) {
	if acct.used+n > acct.Limit {
		return mem.Seg{}, false
	}
	for i, f := range p.free {
		if f.Len < n {
			continue
		}
		if f.Len == n {
			p.free = slices.Delete(p.free, i, i+1)
		} else {
			p.free[i] = f.Slice(n, f.Len-n)
		}
		acct.used += n
		acct.peak = max(acct.peak, acct.used)
		p.stats.Used += n
		p.stats.Peak = max(p.stats.Peak, p.stats.Used)
		p.stats.Leases++
		return f.Slice(0, n), true
	}
	return mem.Seg{}, false
}

// Release takes back what Lease or Try lent, whole and once.
func (p *Pool) Release(acct *Account, s mem.Seg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.free, s.Off, func(f mem.Seg, off int) int { return f.Off - off })
	if i > 0 && p.free[i-1].Off+p.free[i-1].Len > s.Off || i < len(p.free) && s.Off+s.Len > p.free[i].Off {
		panic(fmt.Sprintf("longbuf: lease [%d,+%d) released twice", s.Off, s.Len))
	}
	acct.used -= s.Len
	p.stats.Used -= s.Len
	p.stats.Leases--
	p.free = slices.Insert(p.free, i, s)
	if i+1 < len(p.free) && s.Off+s.Len == p.free[i+1].Off {
		p.free[i].Len += p.free[i+1].Len
		p.free = slices.Delete(p.free, i+1, i+2)
	}
	if i > 0 && p.free[i-1].Off+p.free[i-1].Len == p.free[i].Off {
		p.free[i-1].Len += p.free[i].Len
		p.free = slices.Delete(p.free, i, i+1)
	}
	p.serve()
}

// serve grants what can be granted, in order. p.mu is held.
func (p *Pool) serve() {
	p.round++
	for i := 0; i < len(p.queue); {
		w := p.queue[i]
		if w.acct.stuck == p.round || w.acct.used+w.n > w.acct.Limit {
			w.acct.stuck = p.round // nor do its later ones overtake
			i++
			continue
		}
		s, ok := p.take(w.acct, w.n)
		if !ok {
			return
		}
		p.queue = slices.Delete(p.queue, i, i+1)
		w.ready <- s
	}
}

// Stats is a snapshot.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Usage is what acct holds, and the most that it has held.
func (p *Pool) Usage(acct *Account) (used, peak int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return acct.used, acct.peak
}
