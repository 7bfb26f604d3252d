package nlm

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/account"
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
	// Probe calls the server over the connection of NFS, and returns once it has answered; it
	// may be nil. It shows a restart of NFS alone.
	Probe func(ctx context.Context) error
	// Rpcbind is this host's rpcbind, the path of its socket or its address: there callbacks
	// are registered if nobody else's are. "" is none.
	Rpcbind string
	// MachineName is this host's name in AUTH_SYS credentials and in requests.
	MachineName string
	// Timeo, Retrans and Soft are those of the mount, for a server that was there.
	Timeo   time.Duration
	Retrans int
	Soft    bool
	// JournalDir is a directory of this user alone, in which what is held is noted, so
	// that it can be given back should this process be killed; "" for none.
	JournalDir string
	// Account, if set, counts the calls.
	Account *account.Table
	// Log may be nil.
	Log *slog.Logger

	// For tests: 0 means what the constants below say.
	tryTimeout, heartbeat, firstPause, lastPause, blockedPause, gracePause, firstContact time.Duration
}

const (
	// tryTimeout is after how long a request that was not answered is made again.
	tryTimeout = 5 * time.Second
	// heartbeat is how often the server is called while locks are held, by NLM and by NFS:
	// one that has restarted shows itself, early in a grace period of 50 s or more.
	heartbeat = 5 * time.Second
	// A lock that somebody else has is asked for again after firstPause, and each
	// time twice as long, up to lastPause.
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	// blockedPause takes their place where the server calls back: a call may be lost. Linux'
	// client has the same.
	blockedPause = 30 * time.Second
	gracePause   = time.Second
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
		{&c.blockedPause, blockedPause}, {&c.gracePause, gracePause}, {&c.firstContact, firstContact},
	} {
		if *x.d == 0 {
			*x.d = x.to
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
