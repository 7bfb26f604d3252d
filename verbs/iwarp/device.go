package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const (
	maxSGE   = 32
	maxQueue = 1 << 14
	// maxMessage keeps tagged offsets and message offsets far from wrapping.
	maxMessage = 1 << 30
	// maxReadDepth is what Linux' software iWARP offers, too.
	maxReadDepth = 128

	defaultSetup = 10 * time.Second
)

// Config says how a device behaves on the wire. The zero Config is right for
// software peers.
type Config struct {
	// CRC asks for CRC32C on every FPDU in both directions. It is in force
	// when either side asks.
	CRC bool
	// AlignToMSS keeps each FPDU within one TCP segment, which adapters
	// want. Otherwise FPDUs are as large as they can be.
	AlignToMSS bool
	// SetupTimeout bounds the exchange of MPA frames once TCP is connected; 0
	// means 10 s. A context may end it earlier.
	SetupTimeout time.Duration
}

// Open makes a device. It holds no resource of the system until it is used.
func Open(c Config) verbs.Device {
	if c.SetupTimeout <= 0 {
		c.SetupTimeout = defaultSetup
	}
	d := &device{config: c}
	d.regions.Store(&map[uint64]*region{})
	return d
}

type device struct {
	config Config
	// regions is replaced, never changed: each posted segment is looked up.
	regions atomic.Pointer[map[uint64]*region]

	mu     sync.Mutex // serializes changes of regions
	open   int        // connections, pending set-ups and listeners
	closed bool
}

func (d *device) Caps() verbs.Caps {
	return verbs.Caps{
		Provider:         "iwarp",
		Device:           "tcp",
		MaxSGE:           maxSGE,
		MaxQueue:         maxQueue,
		MaxMessage:       maxMessage,
		MaxPrivateData:   maxPrivate,
		MaxReadDepth:     maxReadDepth,
		RemoteInvalidate: true,
	}
}

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
		return nil, fmt.Errorf("iwarp: arena %d is registered already", a.ID())
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
		return errors.New("iwarp: memory region closed twice")
	}
	m := maps.Clone(old)
	delete(m, r.id)
	d.regions.Store(&m)
	return nil
}

// region finds where s lies; nil when it is not wholly in registered memory.
// Empty segments need none and get an empty one.
func (d *device) region(s mem.Seg) *region {
	if s.Len == 0 {
		return &noRegion
	}
	if s.Arena == nil {
		return nil
	}
	r := (*d.regions.Load())[s.Arena.ID()]
	if r == nil || s.Off < 0 || s.Len < 0 || s.Off > r.size || s.Len > r.size-s.Off {
		return nil
	}
	return r
}

var noRegion region

// hold counts what must be closed before the device.
func (d *device) hold() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	d.open++
	return nil
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
		return fmt.Errorf("iwarp: device closed with %d connections or listeners and %d regions left",
			d.open, len(*d.regions.Load()))
	}
	d.closed = true
	return nil
}
