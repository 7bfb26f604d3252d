package iwarp

import (
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
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
	return &device{Soft: provider.Soft{Provider: "iwarp"}, config: c, caps: verbs.Caps{
		Provider:         "iwarp",
		Device:           "tcp",
		MaxSGE:           maxSGE,
		MaxQueue:         maxQueue,
		MaxMessage:       maxMessage,
		MaxPrivateData:   maxPrivate,
		MaxReadDepth:     maxReadDepth,
		RemoteInvalidate: true,
	}}
}

type device struct {
	provider.Soft
	config Config
	caps   verbs.Caps
}

func (d *device) Caps() verbs.Caps { return d.caps }
