package reconnect

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/account"
)

// Defaults of Config, those of nfs(5).
const (
	DefaultTimeo       = time.Minute
	DefaultRetrans     = 2
	DefaultDialTimeout = 30 * time.Second
	DefaultProbe       = time.Second
)

// Bounds of the back-off, from the start of one attempt to connect to the start of
// the next. The upper bound is small, so that calls continue soon after the server
// or the network is back; one attempt per second is no burden.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
)

// Config configures a Caller.
type Config struct {
	// Server names the server in the log.
	Server string
	// Timeo is how long the first wait for a reply lasts; 0 means a minute.
	Timeo time.Duration
	// Retrans is the number of retransmissions after which a call has taken too
	// long; negative means 2.
	Retrans int
	// Soft makes calls that took too long fail with transport.ErrTimeout.
	Soft bool
	// SoftErr, with Soft, makes them fail with transport.ErrTimedOut instead.
	SoftErr bool
	// NConnect is the number of links; 0 means 1.
	NConnect int
	// DialTimeout bounds one attempt to connect; 0 means 30 s.
	DialTimeout time.Duration
	// Establish, if set, makes the calls that must come first on each new link, by
	// call; BIND_CONN_TO_SESSION of NFSv4.1 is one. No other call goes over the
	// link before it has returned. When it fails, so does the attempt to connect,
	// and the link is closed. ctx ends with DialTimeout. With NConnect it may run
	// for several links at once.
	Establish func(ctx context.Context, call func(context.Context, *transport.Call) error) error
	// Keep, if set, reports whether a link that is lost is replaced even if no call wants one: a server that
	// calls back has no other way to the client. It must not block.
	Keep func() bool
	// Probe is the interval at which a link is examined while a call waits for its
	// reply; 0 means a second, negative never.
	Probe time.Duration
	// Account, if set, counts each call.
	Account *account.Table
	// Slow, if positive, has calls that take as long or longer logged, with where the time
	// went; see transport.Subject for what they were about.
	Slow time.Duration
	// Log may be nil. It gets servers that do not respond, and lost links.
	Log *slog.Logger
	// Clock is the time, for tests; nil means the real one.
	Clock Clock
}

// Clock is what a Caller needs of time.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f once d has passed, as time.AfterFunc does.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a time.Timer made by AfterFunc.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Patience is how long a Caller waits, as Config says of each.
type Patience struct {
	Timeo   time.Duration
	Retrans int
	Soft    bool
	SoftErr bool
}

// Major is the time after which a call has taken too long.
func (p *Patience) Major() time.Duration { return p.Timeo * time.Duration(p.Retrans+1) }

func (p *Patience) setDefaults() {
	if p.Timeo <= 0 {
		p.Timeo = DefaultTimeo
	}
	if p.Retrans < 0 {
		p.Retrans = DefaultRetrans
	}
}

func (c *Config) setDefaults() {
	if c.NConnect <= 0 {
		c.NConnect = 1
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	switch {
	case c.Probe < 0:
		c.Probe = math.MaxInt64
	case c.Probe == 0:
		c.Probe = DefaultProbe
	}
	if c.Server == "" {
		c.Server = "(unnamed)"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = realClock{}
	}
}
