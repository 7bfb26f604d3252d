package iwarp

import (
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/soft"
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
	return &device{config: c}
}

type device struct {
	config  Config
	regions soft.Regions

	mu     sync.Mutex
	open   int // connections, pending set-ups and listeners
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

// Register implements verbs.Device.
func (d *device) Register(a *mem.Arena) (verbs.MemoryRegion, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	r, err := d.regions.Add(a)
	if err != nil {
		return nil, fmt.Errorf("iwarp: %w", err)
	}
	return r, nil
}

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
	if d.open > 0 || d.regions.Len() > 0 {
		return fmt.Errorf("iwarp: device closed with %d connections or listeners and %d regions left",
			d.open, d.regions.Len())
	}
	d.closed = true
	return nil
}
