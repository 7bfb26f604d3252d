package nfsclient

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Client is a mounted export. ctx bounds a call beyond what timeo and retrans
// do; errors are *Error for what the server answered, and the transport's
// otherwise. The package's comment says what is tried again, and by whom.
type Client interface {
	// Root is the export's root and its attributes at mount time.
	Root() (Handle, Attr)
	// Info is what the server said of itself at mount time.
	Info() Info

	// Watch has w hear from the Client what the server says unasked, in place of
	// the Watcher before; nil for none. When it returns, the one before is not
	// called any more.
	Watch(w Watcher)

	GetAttr(ctx context.Context, cr Cred, h Handle) (Attr, error)
	// SetAttr changes attributes; st is the state of an opening for writing, if
	// the caller has one.
	SetAttr(ctx context.Context, cr Cred, h Handle, st OpenState, s SetAttr) (Wcc, error)
	// Lookup's Dir attributes come back with an error of the server too.
	Lookup(ctx context.Context, cr Cred, dir Handle, name string) (Found, error)
	// Access returns which of the asked-for rights the user has.
	Access(ctx context.Context, cr Cred, h Handle, want AccessMask) (AccessMask, *Attr, error)
	// Readlink returns the target.
	Readlink(ctx context.Context, cr Cred, h Handle) (string, *Attr, error)

	// OpenFile opens a regular file. Calls on behalf of that opening carry the
	// state, and CloseFile gives it back. What it says of the file is of a moment
	// after it was called, or the server has promised to tell of a change since.
	OpenFile(ctx context.Context, cr Cred, h Handle, mode OpenMode) (Opened, error)
	// CloseFile gives st back, which is not nil, when the last call that carries
	// it has returned: a WRITE may come long after its user has closed the file.
	// Close gives back what is left.
	CloseFile(ctx context.Context, cr Cred, h Handle, st OpenState) error
	// Read fills to, whose segments lie in registered arenas, from off on.
	Read(ctx context.Context, cr Cred, h Handle, st OpenState, off uint64, to mem.Vec) (ReadResult, error)
	// Write writes from. It may write less than given.
	Write(ctx context.Context, cr Cred, h Handle, st OpenState, off uint64, from mem.Vec, how Stable) (WriteResult, error)
	// Commit makes unstable writes of a range durable; count 0 means to the
	// end of the file.
	Commit(ctx context.Context, cr Cred, h Handle, off uint64, count uint32) (Verifier, Wcc, error)

	// Create makes a regular file and opens it for mode, or fails with ErrExist
	// when the name exists.
	// Only with exclusive is a file that it has made itself, by a call that had
	// to be resent, never taken for another's. The result is complete: where the
	// protocol leaves handle or attributes out, they are looked up.
	Create(ctx context.Context, cr Cred, dir Handle, name string, s SetAttr, exclusive bool, mode OpenMode) (Made, error)
	Mkdir(ctx context.Context, cr Cred, dir Handle, name string, s SetAttr) (Made, error)
	Symlink(ctx context.Context, cr Cred, dir Handle, name, target string, s SetAttr) (Made, error)
	// Mknod makes a device, socket or FIFO, by kind.
	Mknod(ctx context.Context, cr Cred, dir Handle, name string, kind FileType, dev Device, s SetAttr) (Made, error)
	Remove(ctx context.Context, cr Cred, dir Handle, name string) (Wcc, error)
	Rmdir(ctx context.Context, cr Cred, dir Handle, name string) (Wcc, error)
	Rename(ctx context.Context, cr Cred, from Handle, fromName string, to Handle, toName string) (fromDir, toDir Wcc, err error)
	Link(ctx context.Context, cr Cred, h Handle, dir Handle, name string) (*Attr, Wcc, error)

	// ReadDir reads a part of a directory from a cookie on (0: the start),
	// with handles and attributes if plus. It returns at least one entry
	// unless EOF. Where the server cannot give handles and attributes, as without
	// READDIRPLUS, they are missing. ErrBadCookie means: start again from 0.
	ReadDir(ctx context.Context, cr Cred, dir Handle, from DirPos, plus bool) (DirPart, error)
	StatFS(ctx context.Context, cr Cred, h Handle) (StatFS, error)

	// Register makes an arena's segments usable for Read and Write.
	Register(a *mem.Arena) error
	Unregister(a *mem.Arena) error
	// Close unmounts: it takes back the mount at the server and closes the
	// transport.
	Close(ctx context.Context) error
}
