package bufpool

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

const (
	// MinSize and MaxSize are the smallest and the largest buffer.
	MinSize = 4 << 10
	MaxSize = 1 << 20

	classes  = 9       // 4 KiB, 8 KiB … 1 MiB
	slabSize = MaxSize // a slab holds buffers of one class
	// arenaSlabs is how many slabs one arena brings: one registration each.
	arenaSlabs = 8
)

var (
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("bufpool: closed")
	// ErrTooBig: more than MaxSize was asked for.
	ErrTooBig = errors.New("bufpool: larger than the largest buffer")
)

// Config says where a pool's memory comes from.
type Config struct {
	// Limit bounds the pool's memory in bytes; it is rounded up to a whole
	// number of MaxSize and is at least four of them.
	Limit int
	// Register makes an arena usable for I/O; Unregister takes that back. Both
	// may be nil.
	Register, Unregister func(*mem.Arena) error
	// Trim gives the memory of buffers that are not used for a while back to the
	// system. It must not be set if a device has that memory pinned: it would go on using
	// the old pages.
	Trim bool
	// Idle, if set, is run with no lock held when some buffers were not used for a while:
	// a burst is over, and what else it needed may go, too.
	Idle func()
	// Pressure is run, with no lock held, by each Get that has to wait. It
	// starts to free what can be freed and does not wait. It may be nil, and
	// may be set later by SetPressure.
	Pressure func()
}

// Pool lends buffers. All its methods may be called from any goroutine.
type Pool struct {
	cfg   Config
	slabs int // most slabs there may be

	growing sync.Mutex     // one arena is made at a time; taken before mu
	runs    sync.WaitGroup // runGrow, runTrim

	mu       sync.Mutex
	closed   bool
	pressure func()
	arenas   []*mem.Arena
	made     int  // slabs in arenas
	ahead    bool // runGrow is under way
	refused  bool // runGrow failed: only Get tries again
	free     []*slab
	partial  [classes][]*slab // slabs with both lent and free buffers
	lent     int              // bytes lent, by buffer size
	leases   int
	waiters  list.List // of *waiter, oldest first

	tick     uint64 // intervals of trim
	trimming bool   // runTrim is to come
	trimmer  *time.Timer
}

// slab is one MaxSize stretch of an arena, cut into buffers of one class while
// any is lent.
type slab struct {
	arena *mem.Arena
	off   int
	class int
	idle  []uint16 // indices of free buffers
	gen   [slabSize / MinSize]uint32
	pos   int // in partial, -1 if not there
	// holds memory of the system; free since tick.
	holds bool
	tick  uint64
}

type waiter struct {
	class int
	ready chan struct{}
	got   Lease
	err   error
}

// New makes a pool without memory; arenas come with need.
func New(cfg Config) (*Pool, error) {
	if cfg.Limit <= 0 {
		return nil, fmt.Errorf("bufpool: limit of %d bytes", cfg.Limit)
	}
	return &Pool{cfg: cfg, slabs: max(4, (cfg.Limit+slabSize-1)/slabSize), pressure: cfg.Pressure}, nil
}

// Reserve makes the first arena now, so that a limit of the system shows before
// the first buffer is needed.
func (p *Pool) Reserve() error { return p.grow() }

// Limit is the most memory the pool will hold, in bytes.
func (p *Pool) Limit() int { return p.slabs * slabSize }

// SetPressure replaces Config.Pressure.
func (p *Pool) SetPressure(f func()) {
	p.mu.Lock()
	p.pressure = f
	p.mu.Unlock()
}

// Stats is a pool's state: bytes lent and mapped, leases, and waiting Gets.
type Stats struct{ Lent, Mapped, Leases, Waiting int }

func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Lent: p.lent, Mapped: p.made * slabSize, Leases: p.leases, Waiting: p.waiters.Len()}
}

func classOf(n int) int {
	c := 0
	for size := MinSize; size < n; size <<= 1 {
		c++
	}
	return c
}

// Get lends a buffer of at least n bytes, n ≤ MaxSize. When the pool is
// exhausted it waits in turn until ctx ends.
func (p *Pool) Get(ctx context.Context, n int) (Lease, error) {
	if n > MaxSize {
		return Lease{}, ErrTooBig
	}
	class := classOf(n)
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return Lease{}, ErrClosed
		}
		if p.waiters.Len() == 0 {
			if l, ok := p.take(class); ok {
				p.mu.Unlock()
				return l, nil
			}
			if p.made < p.slabs {
				p.mu.Unlock()
				if err := p.grow(); err != nil {
					return Lease{}, err
				}
				continue
			}
		}
		return p.wait(ctx, class)
	}
}

// TryGet lends a buffer like Get but never waits, and leaves a quarter of the
// pool to Get: what is only useful to have must not starve what is needed. To
// map and register an arena takes milliseconds: where one is needed TryGet has
// it made in the background, and fails until then.
func (p *Pool) TryGet(n int) (Lease, bool) {
	if n > MaxSize {
		return Lease{}, false
	}
	class := classOf(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.waiters.Len() > 0 || p.lent+MinSize<<class > p.Limit()/4*3 {
		return Lease{}, false
	}
	l, ok := p.take(class)
	if !ok && p.made < p.slabs && !p.ahead && !p.refused {
		p.ahead = true
		p.runs.Add(1)
		go p.runGrow()
	}
	return l, ok
}

// runGrow makes an arena for later TryGets; Close joins it.
func (p *Pool) runGrow() {
	defer p.runs.Done()
	err := p.grow()
	p.mu.Lock()
	p.ahead, p.refused = false, err != nil
	p.mu.Unlock()
}

// wait is entered with mu held and leaves it released.
func (p *Pool) wait(ctx context.Context, class int) (Lease, error) {
	w := &waiter{class: class, ready: make(chan struct{})}
	e := p.waiters.PushBack(w)
	pressure := p.pressure
	p.mu.Unlock()
	if pressure != nil {
		pressure()
	}
	select {
	case <-w.ready:
		return w.got, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	select {
	case <-w.ready: // the lease and ctx's end crossed
		p.mu.Unlock()
		if w.err == nil {
			w.got.Release()
		}
		return Lease{}, ctx.Err()
	default:
	}
	p.waiters.Remove(e)
	p.serve() // those behind it may need less
	p.mu.Unlock()
	return Lease{}, ctx.Err()
}

// take finds a free buffer, in a larger class if there is none; mu is held.
func (p *Pool) take(class int) (Lease, bool) {
	if l := p.partial[class]; len(l) > 0 {
		return p.cut(l[len(l)-1]), true
	}
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		s.class = class
		s.idle = s.idle[:0]
		for k := slabSize/(MinSize<<class) - 1; k >= 0; k-- {
			s.idle = append(s.idle, uint16(k))
		}
		return p.cut(s), true
	}
	if p.made < p.slabs {
		return Lease{}, false
	}
	for c := class + 1; c < classes; c++ {
		if l := p.partial[c]; len(l) > 0 {
			return p.cut(l[len(l)-1]), true
		}
	}
	return Lease{}, false
}

// cut lends one buffer of s, which has some; mu is held.
func (p *Pool) cut(s *slab) Lease {
	k := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	s.gen[k]++ // odd: lent
	p.place(s)
	size := MinSize << s.class
	p.lent += size
	p.leases++
	return Lease{pool: p, slab: s, index: k, gen: s.gen[k], seg: s.arena.Seg(s.off+int(k)*size, size)}
}

// place puts s into the list where it belongs; mu is held.
func (p *Pool) place(s *slab) {
	some := len(s.idle) > 0 && len(s.idle) < slabSize/(MinSize<<s.class)
	l := &p.partial[s.class]
	if some && s.pos < 0 {
		s.pos = len(*l)
		*l = append(*l, s)
	}
	if !some && s.pos >= 0 {
		last := len(*l) - 1
		(*l)[s.pos] = (*l)[last]
		(*l)[s.pos].pos = s.pos
		(*l)[last] = nil
		*l = (*l)[:last]
		s.pos = -1
	}
	if len(s.idle) == slabSize/(MinSize<<s.class) {
		p.free = append(p.free, s)
		p.freed(s)
	}
}

// serve lends buffers to the waiting Gets, strictly in turn; mu is held.
func (p *Pool) serve() {
	for e := p.waiters.Front(); e != nil; e = p.waiters.Front() {
		w := e.Value.(*waiter)
		l, ok := p.take(w.class)
		if !ok {
			return
		}
		w.got = l
		p.waiters.Remove(e)
		close(w.ready)
	}
}

// grow adds one arena if there is still room for one.
func (p *Pool) grow() error {
	p.growing.Lock()
	defer p.growing.Unlock()
	p.mu.Lock()
	n := min(arenaSlabs, p.slabs-p.made)
	if p.closed || n <= 0 || len(p.free) > 0 {
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	a, err := mem.NewArena(n * slabSize)
	if err != nil {
		return fmt.Errorf("bufpool: %w", err)
	}
	if p.cfg.Register != nil {
		if err := p.cfg.Register(a); err != nil {
			return errors.Join(fmt.Errorf("bufpool: register %d bytes: %w", a.Len(), err), a.Close())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arenas = append(p.arenas, a)
	p.made += n
	p.refused = false
	for k := range n {
		p.free = append(p.free, &slab{arena: a, off: k * slabSize, pos: -1, idle: make([]uint16, 0, slabSize/MinSize)})
	}
	p.serve()
	return nil
}

// Close gives the memory back. Gets that wait fail with ErrClosed. It is an
// error, and nothing is unmapped, while buffers are lent.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stopTrim()
	p.runs.Wait()
	p.growing.Lock()
	defer p.growing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.waiters.Front(); e != nil; e = p.waiters.Front() {
		w := e.Value.(*waiter)
		w.err = ErrClosed
		p.waiters.Remove(e)
		close(w.ready)
	}
	if p.leases > 0 {
		return fmt.Errorf("bufpool: closed with %d buffers lent", p.leases)
	}
	var errs []error
	for _, a := range p.arenas {
		if p.cfg.Unregister != nil {
			if err := p.cfg.Unregister(a); err != nil {
				errs = append(errs, err)
				continue // a device may still know the memory
			}
		}
		errs = append(errs, a.Close())
	}
	p.arenas, p.free, p.made = nil, nil, 0
	return errors.Join(errs...)
}
