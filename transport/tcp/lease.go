package tcp

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Replies' payloads are leased in stretches of 2^k bytes.
const (
	minLease  = 12 // 4 KiB
	leaseSlab = 1 << 20
)

// leases lends memory for the payloads of replies, out of arenas that it keeps
// until close.
type leases struct {
	max int // longest lease

	mu     sync.Mutex
	budget int // bytes of arenas that may still be made
	free   [maxClass + 1][]mem.Seg
	arenas []*mem.Arena
}

func leaseClass(n int) int { return max(bits.Len(uint(max(n, 1)-1)), minLease) }

// get lends n bytes, of whatever content. The borrower gives back with put what
// get returned, sliced from its beginning or not at all.
func (l *leases) get(n int) (mem.Seg, error) {
	if n < 0 || n > l.max {
		return mem.Seg{}, fmt.Errorf("tcp: lease of %d bytes exceeds the bound of %d", n, l.max)
	}
	c := leaseClass(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free[c]) == 0 {
		size := max(1<<c, leaseSlab)
		if size > l.budget {
			return mem.Seg{}, fmt.Errorf("tcp: every byte set aside for replies is lent")
		}
		a, err := mem.NewArena(size)
		if err != nil {
			return mem.Seg{}, err
		}
		l.budget -= size
		l.arenas = append(l.arenas, a)
		for off := 0; off < size; off += 1 << c {
			l.free[c] = append(l.free[c], a.Seg(off, 1<<c))
		}
	}
	last := len(l.free[c]) - 1
	s := l.free[c][last]
	l.free[c] = l.free[c][:last]
	return s.Slice(0, n), nil
}

func (l *leases) put(s mem.Seg) {
	c := leaseClass(s.Len)
	l.mu.Lock()
	l.free[c] = append(l.free[c], s.Arena.Seg(s.Off, 1<<c))
	l.mu.Unlock()
}

// close unmaps the arenas. Nothing may be lent.
func (l *leases) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.arenas {
		if err := a.Close(); err != nil {
			return err
		}
	}
	l.arenas = nil
	return nil
}
