package soft

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Regions are the arenas registered with a device. The zero Regions is empty.
type Regions struct {
	mu sync.Mutex // serializes changes
	// now is replaced, never changed: each posted segment is looked up in it.
	now atomic.Pointer[map[uint64]*Region]
}

// Region is a registered arena; it implements verbs.MemoryRegion.
type Region struct {
	of   *Regions
	id   uint64
	size int
	// base is the remote address of the arena's first byte.
	base uint64
}

func (s *Regions) all() map[uint64]*Region {
	if m := s.now.Load(); m != nil {
		return *m
	}
	return nil
}

// Add registers an arena, which it borrows until Region.Close, at a random
// remote address.
func (s *Regions) Add(a *mem.Arena) (*Region, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all()[a.ID()] != nil {
		return nil, fmt.Errorf("arena %d is registered already", a.ID())
	}
	var b [8]byte
	rand.Read(b[:])
	// Page-aligned, and so low that no offset wraps.
	base := binary.BigEndian.Uint64(b[:]) >> 2 &^ 0xfff
	r := &Region{of: s, id: a.ID(), size: a.Len(), base: base}
	m := maps.Clone(s.all())
	if m == nil {
		m = make(map[uint64]*Region)
	}
	m[r.id] = r
	s.now.Store(&m)
	return r, nil
}

// Close withdraws the registration.
func (r *Region) Close() error {
	s := r.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all()[r.id] != r {
		return errors.New("memory region closed twice")
	}
	m := maps.Clone(s.all())
	delete(m, r.id)
	s.now.Store(&m)
	return nil
}

// Len is how many arenas are registered.
func (s *Regions) Len() int { return len(s.all()) }

// Address is the remote address of the first byte of seg; ok is false when seg
// is not wholly in registered memory. Empty segments need none, and get 0.
func (s *Regions) Address(seg mem.Seg) (addr uint64, ok bool) {
	if seg.Len == 0 {
		return 0, true
	}
	if seg.Arena == nil {
		return 0, false
	}
	r := s.all()[seg.Arena.ID()]
	if r == nil || seg.Off < 0 || seg.Len < 0 || seg.Off > r.size || seg.Len > r.size-seg.Off {
		return 0, false
	}
	return r.base + uint64(seg.Off), true
}
