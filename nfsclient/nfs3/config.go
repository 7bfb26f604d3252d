package nfs3

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// Config says what to mount and how.
type Config struct {
	// Host is the server as the user named it, for messages; Addr its address.
	Host string
	Addr netip.Addr
	// Export is the path to mount.
	Export string
	// Caller carries NFS. The Client takes it when Mount succeeds; after a
	// failure it is still the caller's to close.
	Caller transport.Caller
	// Dial makes a Caller over TCP for rpcbind and mountd, which do not speak
	// RDMA (RFC 8267 section 3.3). It must give up on a dead server: with ctx, or like a
	// soft mount. Mount closes what it makes.
	Dial func(ctx context.Context, to netip.AddrPort) (transport.Caller, error)
	// MountPort is mountd's port; 0 asks rpcbind.
	MountPort uint16
	// RSize and WSize bound one read or write, in bytes; 0 leaves it to the
	// server and the transport.
	RSize, WSize int
	// ACL asks the server whether it has access control lists (NFSACL).
	ACL bool
	// NoReadDirPlus lists directories without attributes and handles of what is in them (READDIR).
	NoReadDirPlus bool
	// Cred is used for mounting.
	Cred nfsclient.Cred
	// Flavor is that of the Caller's calls, by the number that MOUNT has for it (RFC 2623
	// section 2.2.1); 0 is AUTH_SYS.
	Flavor uint32
	// Locks, if not nil, takes locks at the server. The Client takes it when Mount
	// succeeds.
	Locks Locks
	// MachineName is this host's name in AUTH_SYS credentials.
	MachineName string
	// Log may be nil. It gets what is worth knowing and no error.
	Log *slog.Logger

	askPort bool // MountPort was 0
}

const (
	// A directory part asks for what the server prefers within these bounds.
	minReadDir = 8 << 10
	maxReadDir = 64 << 10
	// growReadDir bounds a part when an entry is too large for that.
	growReadDir = 256 << 10

	// maxNameMax is NAME_MAX, which programs have buffers for; some servers claim
	// more, or say nothing.
	maxNameMax = 255
)

// sys is the credential of calls made on behalf of cr.
func (cf *Config) sys(cr nfsclient.Cred) transport.AuthSys {
	return transport.AuthSys{Machine: cf.MachineName, UID: cr.UID, GID: cr.GID, GIDs: cr.GIDs}
}
