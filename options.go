package rdmafs

import (
	"log/slog"

	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// Options say how to reach an export and use it. The zero Options, and nil, are
// the defaults of rdmafs mount, but for Buffers.
type Options struct {
	// Mount are mount options as behind -o of rdmafs mount, separated by commas:
	// "proto=tcp,port=2049,ro". docs/options.md lists them.
	Mount string
	// User is on whose behalf files are used; nil means the user and groups of
	// this process. Mount does not look at it: each process that uses a mount
	// has its own.
	User *User
	// Buffers bounds the memory for data being read ahead or not yet on stable
	// storage, in bytes. 0 means 16 MiB for Open, and 128 MiB for Mount; less
	// than 4 MiB is 4 MiB.
	Buffers int
	// Log may be nil. It is told of what no method can return: data that was
	// lost in the background, a server that does not answer, how it was reached.
	Log *slog.Logger
}

// User is a user of the server, as AUTH_SYS has it. The server sees the first
// 16 of Groups.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

func (u *User) cred() nfsclient.Cred {
	if u == nil {
		return session.OwnCred()
	}
	return nfsclient.Cred{UID: u.UID, GID: u.GID, GIDs: u.Groups}
}

// Status is how an open export is reached.
type Status struct {
	Transport string // "rdma/iwarp", "rdma/ibv", "rdma/roce" or "tcp"
	Server    string // address and port
	Version   string // of NFS
	Calls     uint64 // to the server, so far
}
