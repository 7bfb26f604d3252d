package nfs4

import (
	"log/slog"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/transport"
)

// Config says what to mount and how.
type Config struct {
	// Host is the server as the user named it, for messages.
	Host string
	// Export is the path to mount, from the root of the server's pseudo file system.
	Export string
	// Minor is the minor version, 1 or 2.
	Minor uint32
	// Caller carries NFS. The Client takes it when Mount succeeds; after a failure it is still
	// the caller's to close. It must send a call again when a connection was lost, as
	// transport/reconnect does: that is what the session makes safe. A soft one may leave openings at
	// the server until the Client is closed.
	Caller transport.Caller
	// Binder, if set, is that whose Establish Caller calls for each new connection.
	Binder *session.Binder
	// Owner tells this client from all others of the server (co_ownerid): one for each mount, with
	// random parts, since names of hosts are equal on cloned machines and in containers. Two clients
	// with one Owner throw away each other's state without end. A daemon that starts again after it
	// was killed may give the Owner of before with another Verifier, random at each start: the server
	// then drops the old state at once, instead of after its lease time.
	Owner    []byte
	Verifier [8]byte
	// RSize and WSize bound one read or write, in bytes; 0 leaves it to the server and the
	// transport.
	RSize, WSize int
	// Slots is how many calls the session carries at once; 0 for a default.
	Slots int
	// Cred is used for mounting, and for what concerns the client and not one user. A server knows
	// a client by Owner and Cred: the same Owner needs the same Cred, and the same address of this
	// host.
	Cred nfsclient.Cred
	// Private: calls travel encrypted, by RPCSEC_GSS. Linux' server (seen with 6.12) then reads what stands behind the first
	// page of a request 32 bytes too early, but for the data of WRITE and SETXATTR: it would take the end
	// of that data for the next operation. Nothing stands behind such data, therefore.
	Private bool
	// MachineName is this host's name in AUTH_SYS credentials.
	MachineName string
	// Callbacks, if set, serves what the server calls back over the connections of Caller, which must
	// have been dialed with it and are bound by Binder. With it the server may give delegations.
	Callbacks *callback.Service
	// IDMap is how names of owners are understood.
	IDMap IDMap
	// Cached is the length of the replies that the server is to keep, as of
	// session.Config; 0 leaves it to the session.
	Cached int
	// Log may be nil. It gets what is worth knowing and no error.
	Log *slog.Logger
}

// MountError says why an export could not be mounted. It is that of NFSv3, so that who mounts need
// not know the version.
type MountError = nfs3.MountError

const (
	readDirSize = 64 << 10
	// growReadDir bounds a part of a directory when an entry is too large for readDirSize.
	growReadDir = 256 << 10

	// maxNameMax is NAME_MAX, which programs have buffers for.
	maxNameMax = 255
)

func (cf *Config) fail(f nfs3.Failure, why, hint string, err error) error {
	return &MountError{Failure: f, Host: cf.Host, Export: cf.Export, Why: why, Hint: hint, Err: err}
}

// sys is the credential of calls made on behalf of cr.
func (cf *Config) sys(cr nfsclient.Cred) transport.AuthSys {
	return transport.AuthSys{Machine: cf.MachineName, UID: cr.UID, GID: cr.GID, GIDs: cr.GIDs}
}
