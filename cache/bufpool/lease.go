package bufpool

import (
	"fmt"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Lease is a buffer on loan. The zero Lease is none.
type Lease struct {
	pool  *Pool
	slab  *slab
	index uint16
	gen   uint32
	seg   mem.Seg
}

// Valid reports whether l is a lease.
func (l Lease) Valid() bool { return l.pool != nil }

// Len is the buffer's size: what was asked for, rounded up to a power of two
// or more.
func (l Lease) Len() int { return l.seg.Len }

// Bytes is the buffer, valid until Release. Its content is arbitrary.
func (l Lease) Bytes() []byte { return l.seg.Bytes() }

// Seg is the buffer as registered memory, valid until Release.
func (l Lease) Seg() mem.Seg { return l.seg }

// Release gives the buffer back. Doing so twice panics, also through a copy of
// the lease and when the buffer has been lent again since.
func (l Lease) Release() {
	p, s := l.pool, l.slab
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.gen[l.index] != l.gen {
		panic(fmt.Sprintf("bufpool: buffer %d+%d of arena %d released twice", l.seg.Off, l.seg.Len, l.seg.Arena.ID()))
	}
	s.gen[l.index]++ // even: free
	s.idle = append(s.idle, l.index)
	p.place(s)
	p.lent -= l.seg.Len
	p.leases--
	p.serve()
}
