package nlm

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// Config says whose locks are taken, and where.
type Config struct {
	// Host is the server as the user named it, for messages; Addr its address.
	Host string
	Addr netip.Addr
	// Port finds the port of NLM, each time that a connection is made: it moves when
	// a server restarts. 0 means that there is none.
	Port func(ctx context.Context) (uint16, error)
	// Dialer makes TCP connections to an address.
	Dialer func(to netip.AddrPort) (transport.Dialer, error)
	// Reserved: connections come from ports below 1024.
	Reserved bool
	// MachineName is this host's name in AUTH_SYS credentials and in requests.
	MachineName string
	// Timeo, Retrans and Soft are those of the mount, for a server that was there.
	Timeo   time.Duration
	Retrans int
	Soft    bool
	// JournalDir is a directory of this user alone, in which what is held is noted, so
	// that it can be given back should this process be killed; "" for none.
	JournalDir string
	// Log may be nil.
	Log *slog.Logger

	// For tests: 0 means what the constants below say.
	tryTimeout, heartbeat, firstPause, lastPause, gracePause, firstContact time.Duration
}

const (
	// tryTimeout is after how long a request that was not answered is made again.
	tryTimeout = 5 * time.Second
	// heartbeat is how often the server is called while locks are held: Linux servers
	// close connections that are idle for six minutes, and a server that has
	// restarted shows itself.
	heartbeat = 30 * time.Second
	// A lock that somebody else has is asked for again after firstPause, and each
	// time twice as long, up to lastPause.
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	gracePause = time.Second
	// firstContact bounds finding a server's lock manager for the first time. After a
	// failure nothing is tried for as long.
	firstContact = 10 * time.Second
)

func (c *Config) setDefaults() {
	for _, x := range []struct {
		d  *time.Duration
		to time.Duration
	}{
		{&c.tryTimeout, tryTimeout}, {&c.heartbeat, heartbeat}, {&c.firstPause, firstPause}, {&c.lastPause, lastPause},
		{&c.gracePause, gracePause}, {&c.firstContact, firstContact},
	} {
		if *x.d == 0 {
			*x.d = x.to
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
