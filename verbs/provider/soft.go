package provider

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Soft is a device without an adapter, but for its connections: the arenas
// registered with it, and its Uses.
type Soft struct {
	Provider string // its name, for errors
	Uses

	mu sync.Mutex // serializes changes of regions
	// regions is replaced, never changed: each posted segment is looked up in it.
	regions atomic.Pointer[map[uint64]*region]
}

// region is a registered arena; it implements verbs.MemoryRegion.
type region struct {
	of   *Soft
	id   uint64
	size int
	// base is the remote address of the arena's first byte.
	base uint64
}

func (s *Soft) all() map[uint64]*region {
	if m := s.regions.Load(); m != nil {
		return *m
	}
	return nil
}

// Register implements verbs.Device. The arena's remote address is random.
func (s *Soft) Register(a *mem.Arena) (verbs.MemoryRegion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.HoldRegion(); err != nil {
		return nil, err
	}
	if s.all()[a.ID()] != nil {
		s.ReleaseRegion()
		return nil, fmt.Errorf("%s: arena %d is registered already", s.Provider, a.ID())
	}
	var b [8]byte
	rand.Read(b[:])
	// Page-aligned, and so low that no offset wraps.
	base := binary.BigEndian.Uint64(b[:]) >> 2 &^ 0xfff
	r := &region{of: s, id: a.ID(), size: a.Len(), base: base}
	m := maps.Clone(s.all())
	if m == nil {
		m = make(map[uint64]*region)
	}
	m[r.id] = r
	s.regions.Store(&m)
	return r, nil
}

// Close withdraws the registration.
func (r *region) Close() error {
	s := r.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all()[r.id] != r {
		return errors.New("memory region closed twice")
	}
	m := maps.Clone(s.all())
	delete(m, r.id)
	s.regions.Store(&m)
	s.ReleaseRegion()
	return nil
}

// Address is the remote address of the first byte of seg; ok is false when seg
// is not wholly in registered memory. Empty segments need none, and get 0.
func (s *Soft) Address(seg mem.Seg) (addr uint64, ok bool) {
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

// Close implements verbs.Device.
func (s *Soft) Close() error { return s.CloseUnused(s.Provider) }
