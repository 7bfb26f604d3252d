package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// poolUnit is the granularity of leases: a page, so that payloads start on one.
const poolUnit = 4096

var (
	errTooLarge = errors.New("lease exceeds what one client may hold")
	errNoMemory = errors.New("no transfer memory free")
)

// PoolStats tells what a Server's transfer memory is used for, in bytes.
type PoolStats struct {
	Size, Used, Peak int
	// Leases is how many are out; Waits counts those that had to wait.
	Leases int
	Waits  uint64
}

// serverPool leases contiguous stretches of one arena. Leases that find no
// room wait in order of arrival, so that a large one is not starved by small
// ones; one that waits because its own client holds too much does not hold up
// other clients.
type serverPool struct {
	arena *mem.Arena

	mu    sync.Mutex
	free  []mem.Seg // ascending, never touching
	queue []*poolWaiter
	round uint64
	stats PoolStats
}

// poolAccount bounds what one client may hold. The pool's mutex guards it.
type poolAccount struct {
	limit, used, peak int
	// stuck is the round of serveQueue that last found it at its limit.
	stuck uint64
}

type poolWaiter struct {
	acct  *poolAccount
	n     int
	ready chan mem.Seg // of capacity 1
}

func newServerPool(size int) (*serverPool, error) {
	a, err := mem.NewArena(size)
	if err != nil {
		return nil, err
	}
	return &serverPool{arena: a, free: []mem.Seg{a.Seg(0, a.Len())}, stats: PoolStats{Size: a.Len()}}, nil
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// lease lends n bytes, rounded up to whole units, waiting for them until ctx
// ends. It never waits for what cannot come.
func (p *serverPool) lease(ctx context.Context, acct *poolAccount, n int) (mem.Seg, error) {
	n = roundUp(n, poolUnit)
	p.mu.Lock()
	if n > acct.limit || n > p.stats.Size {
		p.mu.Unlock()
		return mem.Seg{}, errTooLarge
	}
	if len(p.queue) == 0 {
		if s, ok := p.take(acct, n); ok {
			p.mu.Unlock()
			return s, nil
		}
	}
	w := &poolWaiter{acct: acct, n: n, ready: make(chan mem.Seg, 1)}
	p.queue = append(p.queue, w)
	p.serveQueue()
	if len(w.ready) == 0 {
		p.stats.Waits++
	}
	p.mu.Unlock()
	select {
	case s := <-w.ready:
		return s, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.queue, w)
	if i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.serveQueue() // those behind may have waited for it alone
	}
	p.mu.Unlock()
	if i < 0 {
		p.release(acct, <-w.ready)
	}
	return mem.Seg{}, ctx.Err()
}

// try is lease that does not wait, nor overtake those that do.
func (p *serverPool) try(acct *poolAccount, n int) (mem.Seg, error) {
	n = roundUp(n, poolUnit)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > acct.limit {
		return mem.Seg{}, errTooLarge
	}
	if len(p.queue) == 0 {
		if s, ok := p.take(acct, n); ok {
			return s, nil
		}
	}
	return mem.Seg{}, errNoMemory
}

// take is called with mu held.
func (p *serverPool) take(acct *poolAccount, n int) (mem.Seg, bool) {
	if acct.used+n > acct.limit {
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

// release takes back what lease or try lent, whole and once.
func (p *serverPool) release(acct *poolAccount, s mem.Seg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.free, s.Off, func(f mem.Seg, off int) int { return f.Off - off })
	if i > 0 && p.free[i-1].Off+p.free[i-1].Len > s.Off || i < len(p.free) && s.Off+s.Len > p.free[i].Off {
		panic(fmt.Sprintf("rpcrdma: lease [%d,+%d) released twice", s.Off, s.Len))
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
	p.serveQueue()
}

// serveQueue grants what can be granted, in order. It is called with mu held.
func (p *serverPool) serveQueue() {
	p.round++
	for i := 0; i < len(p.queue); {
		w := p.queue[i]
		if w.acct.stuck == p.round || w.acct.used+w.n > w.acct.limit {
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

func (p *serverPool) snapshot() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
