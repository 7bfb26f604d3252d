package session

import (
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/transport/account"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
)

// Config says what is mounted and how.
type Config struct {
	Source  source.Source
	Options options.Options
	// MountPoint is where the session will be mounted, if it will: with version 4 the next session for the same place
	// takes over from this one should this process be killed.
	MountPoint string
	// Buffers bounds the cache's buffers, in bytes; 0 means as much as there is
	// room for, up to providers.PoolBytes.
	Buffers int
	// Idle, if set, is run when a burst of reads or writes is over, see bufpool.Config.
	Idle func()
	// Tell, if set, is told of each call of NFS version 4, on the goroutine that has made it.
	Tell func(Told)
	// Log may be nil: discarded.
	Log *slog.Logger

	remotes []netip.Addr   // of the server, that connections are spread over; of Connect
	tickets *krb5.Client   // with sec=krb5 and the like
	account *account.Table // of the session made from it; nil counts nothing
	// callbacks serves what a server of NFSv4 calls back; nil with version 3. Of Connect.
	callbacks *callback.Service
}

func (c *Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// The bounds of ConnectTimeout. However soon a mount is to give a call up, a
// busy machine may take longer to connect.
const (
	leastConnectTimeout = 2 * time.Second
	mostConnectTimeout  = 30 * time.Second
)

// ConnectTimeout bounds each attempt to connect and what is asked for over the
// new connection.
func (c *Config) ConnectTimeout() time.Duration {
	return max(leastConnectTimeout, min(c.Options.Timeo, mostConnectTimeout))
}

// machineName is this machine's in AUTH_SYS credentials.
func machineName() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}

// OwnCred is the credential of this process, for the calls of the mount itself.
func OwnCred() nfsclient.Cred {
	cr := nfsclient.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, err := os.Getgroups()
	if err != nil {
		return cr
	}
	for _, g := range groups {
		cr.GIDs = append(cr.GIDs, uint32(g))
	}
	return cr
}
