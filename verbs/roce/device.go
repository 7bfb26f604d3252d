package roce

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/cm"
	"github.com/rdmafs/rdmafs/verbs/roce/rc"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// Config says how a device behaves. The zero Config is right on most hosts.
type Config struct {
	// Local is the address to dial from unless ConnOptions says otherwise. If it
	// is not valid the route decides.
	Local netip.Addr
}

// Open makes a device. It holds no resource of the system until it is used.
func Open(c Config) verbs.Device {
	d := &device{config: c, ports: make(map[netip.Addr]*port)}
	d.regions.Store(&map[uint64]*region{})
	return d
}

type device struct {
	config Config
	// regions is replaced, never changed: each posted segment is looked up.
	regions atomic.Pointer[map[uint64]*region]

	mu     sync.Mutex // serializes changes of regions, too
	ports  map[netip.Addr]*port
	open   int // connections and listeners
	closed bool
}

func (d *device) Caps() verbs.Caps {
	return verbs.Caps{
		Provider:         "roce",
		Device:           "udp",
		MaxSGE:           rc.MaxSGE,
		MaxQueue:         rc.MaxQueue,
		MaxMessage:       rc.MaxMessage,
		MaxPrivateData:   maxPrivate,
		MaxReadDepth:     rc.MaxReadDepth,
		RemoteInvalidate: true,
	}
}

// maxPrivate is what fits a request, which has the least room.
const maxPrivate = cm.REQPrivate

// region is a registered arena.
type region struct {
	dev  *device
	id   uint64
	size int
	// base is the remote address of the arena's first byte.
	base uint64
}

// Register implements verbs.Device.
func (d *device) Register(a *mem.Arena) (verbs.MemoryRegion, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	old := *d.regions.Load()
	if old[a.ID()] != nil {
		return nil, fmt.Errorf("roce: arena %d is registered already", a.ID())
	}
	var b [8]byte
	rand.Read(b[:])
	// Page-aligned, and so low that no offset wraps.
	base := binary.BigEndian.Uint64(b[:]) >> 2 &^ 0xfff
	r := &region{dev: d, id: a.ID(), size: a.Len(), base: base}
	m := maps.Clone(old)
	m[r.id] = r
	d.regions.Store(&m)
	return r, nil
}

// Close implements verbs.MemoryRegion.
func (r *region) Close() error {
	d := r.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	old := *d.regions.Load()
	if old[r.id] != r {
		return errors.New("roce: memory region closed twice")
	}
	m := maps.Clone(old)
	delete(m, r.id)
	d.regions.Store(&m)
	return nil
}

// address is the remote address of the first byte of s; ok is false when s is
// not wholly in registered memory. Empty segments need none.
func (d *device) address(s mem.Seg) (va uint64, ok bool) {
	if s.Len == 0 {
		return 0, true
	}
	if s.Arena == nil {
		return 0, false
	}
	r := (*d.regions.Load())[s.Arena.ID()]
	if r == nil || s.Off < 0 || s.Len < 0 || s.Off > r.size || s.Len > r.size-s.Off {
		return 0, false
	}
	return r.base + uint64(s.Off), true
}

// hold finds or opens the port for a local address, for something that must be
// closed before the device. A port of all addresses will do for each.
func (d *device) hold(local netip.Addr) (*port, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	all := netip.IPv4Unspecified()
	if local.Is6() {
		all = netip.IPv6Unspecified()
	}
	p := d.ports[all]
	if p == nil {
		p = d.ports[local]
	}
	if p == nil {
		s, err := udp.Open(local)
		if err != nil {
			return nil, err
		}
		p = newPort(s)
		d.ports[local] = p
	}
	d.open++
	return p, nil
}

func (d *device) release() {
	d.mu.Lock()
	d.open--
	d.mu.Unlock()
}

// Close implements verbs.Device.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open > 0 || len(*d.regions.Load()) > 0 {
		return fmt.Errorf("roce: device closed with %d connections or listeners and %d regions left",
			d.open, len(*d.regions.Load()))
	}
	d.closed = true
	for _, p := range d.ports {
		p.close()
	}
	clear(d.ports)
	return nil
}
