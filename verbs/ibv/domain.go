//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const (
	maxSGE     = 16
	maxQueue   = 1 << 14
	maxMessage = 1 << 30
	// The private data that the connection manager's requests carry: on
	// InfiniBand what IBTA annex A11 leaves, on iWARP what siw counts in one byte.
	maxPrivate      = 56
	maxPrivateIWARP = 248
	maxReadDepth    = 128
)

// domain is a protection domain on one adapter. It is changed with device.mu
// held; only regions is read without.
type domain struct {
	adapter *adapter
	pd      *C.struct_ibv_pd
	caps    verbs.Caps
	pinned  int // bytes
	conns   int
	// regions is replaced, never changed: each posted segment is looked up.
	regions atomic.Pointer[map[uint64]memoryRegion]
}

// memoryRegion is an arena that one adapter knows.
type memoryRegion struct {
	mr         C.uint64_t
	lkey, rkey C.uint32_t
	base       uint64
	size       int
}

// openDomain makes a domain with all arenas registered; d.mu is held.
func (d *device) openDomain(id identity) (*domain, error) {
	a, err := useAdapter(id)
	if err != nil {
		return nil, err
	}
	dom := &domain{adapter: a}
	dom.regions.Store(&map[uint64]memoryRegion{})
	if err := errno(C.rv_alloc_pd(a.ctx, &dom.pd)); err != nil {
		a.release()
		return nil, fmt.Errorf("protection domain on %s: %w", a.name, err)
	}
	err = dom.readCaps(id.port, d.config.Keys)
	for _, r := range d.regions {
		if err == nil {
			err = dom.register(r.arena)
		}
	}
	if err != nil {
		return nil, errors.Join(err, dom.close())
	}
	return dom, nil
}

// readCaps queries the adapter and chooses the kind of keys.
func (dom *domain) readCaps(port int, keys Keys) error {
	var c C.struct_rv_adapter
	if err := errno(C.rv_adapter(dom.adapter.ctx, dom.pd, C.int(port), &c)); err != nil {
		return fmt.Errorf("RDMA device %s: %w", dom.adapter.name, err)
	}
	windows := c.windows != 0
	if keys == WindowKeys && !windows {
		return &UnavailableError{
			Missing: fmt.Sprintf("RDMA device %s has no type-2 memory windows", dom.adapter.name),
			Remedy:  "reg=region, or no reg=, does without",
		}
	}
	dom.caps = verbs.Caps{
		Provider:       "ibv",
		Device:         dom.adapter.name,
		MaxSGE:         min(maxSGE, int(c.max_sge)),
		MaxQueue:       min(maxQueue, int(c.max_wr)-1, (int(c.max_cqe)-1)/2), // one is ours
		MaxMessage:     maxMessage,
		MaxPrivateData: maxPrivate,
		MaxReadDepth:   min(maxReadDepth, int(c.max_read_in), int(c.max_read_out)),
		Pins:           true,
		RegionKeys:     keys == RegionKeys || !windows,
	}
	dom.caps.RemoteInvalidate = !dom.caps.RegionKeys
	if c.max_message != 0 && c.max_message < maxMessage {
		dom.caps.MaxMessage = int(c.max_message)
	}
	if c.iwarp != 0 {
		dom.caps.MaxPrivateData = maxPrivateIWARP
	}
	return nil
}

// register makes an arena known to the adapter. Only with RegionKeys does that
// let peers reach it.
func (dom *domain) register(a *mem.Arena) error {
	var mr C.struct_rv_mr
	remote := C.int(0)
	if dom.caps.RegionKeys {
		remote = 1
	}
	p := unsafe.Pointer(&a.Bytes()[0])
	if err := errno(C.rv_reg_mr(dom.pd, p, C.uint64_t(a.Len()), remote, &mr)); err != nil {
		return dom.pinError(err, a.Len())
	}
	m := maps.Clone(*dom.regions.Load())
	m[a.ID()] = memoryRegion{mr: mr.mr, lkey: mr.lkey, rkey: mr.rkey, base: uint64(uintptr(p)), size: a.Len()}
	dom.regions.Store(&m)
	dom.pinned += a.Len()
	return nil
}

// pinError explains a failed registration if the limit on locked memory caused it.
func (dom *domain) pinError(err error, need int) error {
	var l unix.Rlimit
	if errors.Is(err, syscall.ENOMEM) && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur != unix.RLIM_INFINITY {
		return &PinError{Need: need, Pinned: dom.pinned, Limit: l.Cur}
	}
	return fmt.Errorf("RDMA device %s: cannot register %d bytes: %w", dom.adapter.name, need, err)
}

// deregister forgets an arena, if it is known.
func (dom *domain) deregister(id uint64) error {
	old := *dom.regions.Load()
	r, ok := old[id]
	if !ok {
		return nil
	}
	m := maps.Clone(old)
	delete(m, id)
	dom.regions.Store(&m)
	dom.pinned -= r.size
	if err := errno(C.rv_dereg_mr(r.mr)); err != nil {
		return fmt.Errorf("RDMA device %s: cannot deregister memory: %w", dom.adapter.name, err)
	}
	return nil
}

// find is the region that s lies in; ok is false when s is not wholly in
// registered memory.
func (dom *domain) find(s mem.Seg) (r memoryRegion, ok bool) {
	if s.Arena == nil {
		return r, false
	}
	r, ok = (*dom.regions.Load())[s.Arena.ID()]
	return r, ok && s.Off >= 0 && s.Len >= 0 && s.Off <= r.size && s.Len <= r.size-s.Off
}

func (dom *domain) close() error {
	var err error
	for id := range *dom.regions.Load() {
		err = errors.Join(err, dom.deregister(id))
	}
	err = errors.Join(err, errno(C.rv_dealloc_pd(dom.pd)))
	dom.adapter.release()
	return err
}
