package nfsclient

import (
	"context"
	"errors"
)

// ErrNotSupported is what the methods of the interfaces below return where the
// Client has them and the server, or this file system of its, has not.
var ErrNotSupported = errors.New("not supported by the server")

// Locker is a Client that locks byte ranges (POSIX record locks).
type Locker interface {
	// SetLock takes a lock, changes the type of one or, with Unlocked, gives it
	// back. Ranges are split and joined as POSIX has it. It does not wait:
	// ErrLocked means that another owner has a conflicting lock. When ctx ends first,
	// a lock is not taken; one that is given back is given back all the same.
	SetLock(ctx context.Context, cr Cred, h Handle, st OpenState, owner LockOwner, l Lock) error
	// WaitLock is SetLock that waits until the lock is granted. When ctx ends
	// first, the lock is not held.
	WaitLock(ctx context.Context, cr Cred, h Handle, st OpenState, owner LockOwner, l Lock) error
	// TestLock returns a lock that conflicts with l, or nil.
	TestLock(ctx context.Context, cr Cred, h Handle, st OpenState, owner LockOwner, l Lock) (*Lock, error)
}

// ErrLocked means that another owner has a conflicting lock.
var ErrLocked = errors.New("locked by another owner")

// LockOwner tells the owners of locks apart within one mount.
type LockOwner uint64

// LockType is the type of a lock.
type LockType uint8

const (
	Unlocked LockType = iota
	ReadLock
	WriteLock
)

// Lock is a lock on the bytes from First to Last, which is the largest uint64
// for a lock to the end of the file, wherever that comes to be.
type Lock struct {
	Type        LockType
	First, Last uint64
}

// Xattrs is a Client with extended attributes of users (RFC 8276). Names are
// without the prefix "user.".
type Xattrs interface {
	// GetXattr returns the value, which is at most limit bytes long.
	GetXattr(ctx context.Context, cr Cred, h Handle, name string, limit int) ([]byte, error)
	SetXattr(ctx context.Context, cr Cred, h Handle, name string, value []byte, how SetXattr) (Wcc, error)
	ListXattrs(ctx context.Context, cr Cred, h Handle) ([]string, error)
	RemoveXattr(ctx context.Context, cr Cred, h Handle, name string) (Wcc, error)
}

// SetXattr says whether an extended attribute must, or must not, be there before
// it is set.
type SetXattr uint8

const (
	XattrEither SetXattr = iota
	XattrCreate
	XattrReplace
)

// ACLs is a Client with POSIX access control lists. Info.ACLs says whether the server
// has them; it may have file systems without.
type ACLs interface {
	// GetACL returns the access list of a file, and the default list of a directory. An
	// access list that says no more than the mode is left empty. Attr comes with errors of
	// the server, too.
	GetACL(ctx context.Context, cr Cred, h Handle, dir bool) (ACL, error)
	// SetACL sets the access list, and, of a directory, the default list, where an empty
	// one removes it. An empty access list is that of the mode in acl.Attr, which is of
	// the file as it is known; without it, of the mode that the server says.
	SetACL(ctx context.Context, cr Cred, h Handle, dir bool, acl ACL) (*Attr, error)
}

// NFS4ACLs is a Client with the access control lists of NFSv4 (RFC 8881 section 6). Info.NFS4ACLs says whether the
// server has them; it may have file systems without. A list is fattr4_acl as XDR has it.
type NFS4ACLs interface {
	GetNFS4ACL(ctx context.Context, cr Cred, h Handle) ([]byte, error)
	SetNFS4ACL(ctx context.Context, cr Cred, h Handle, acl []byte) (Wcc, error)
}

// ACL is a file's lists, and its attributes with them, or nil.
type ACL struct {
	Access, Default []ACE
	Attr            *Attr
}

// ACETag says to whom an entry of an access control list applies.
type ACETag uint16

// The values are those of POSIX 1003.1e draft 17 as Linux and NFSACL have them.
const (
	ACLUserObj  ACETag = 0x01
	ACLUser     ACETag = 0x02
	ACLGroupObj ACETag = 0x04
	ACLGroup    ACETag = 0x08
	ACLMask     ACETag = 0x10
	ACLOther    ACETag = 0x20
)

// ACE is an entry of an access control list. Perm has the bits of a mode's last
// digit; ID is that of a user or group, with ACLUser and ACLGroup.
type ACE struct {
	Tag  ACETag
	Perm uint16
	ID   uint32
}

// Ranges is a Client that knows of holes in files and copies at the server (RFC
// 7862).
type Ranges interface {
	// Seek returns where the first data, or the first hole, begins at off or
	// behind it. ErrNXIO means that there is none.
	Seek(ctx context.Context, cr Cred, h Handle, st OpenState, off uint64, hole bool) (uint64, error)
	// Allocate reserves storage for n bytes from off on.
	Allocate(ctx context.Context, cr Cred, h Handle, st OpenState, off, n uint64) (Wcc, error)
	// Deallocate makes a hole of n bytes from off on.
	Deallocate(ctx context.Context, cr Cred, h Handle, st OpenState, off, n uint64) (Wcc, error)
	// Copy copies up to n bytes from one file to another without their passing
	// the client, and says how many, and how durably.
	Copy(ctx context.Context, cr Cred, from Handle, fromState OpenState, fromOff uint64,
		to Handle, toState OpenState, toOff, n uint64) (WriteResult, error)
}

// Rerooter is a Client that finds the export's root anew when the server does not know it any
// more. The root's handle stays the same for its user.
type Rerooter interface {
	// WatchRoot has told called, on the goroutine of a call that has found out, when another
	// directory stands for the root; with its attributes. nil for nobody.
	WatchRoot(told func(Attr))
}
