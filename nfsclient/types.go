package nfsclient

import "time"

// Handle is a file handle, opaque bytes held as a string so that handles
// compare and serve as map keys.
type Handle string

// Cred is the user on whose behalf a call is made. How the client proves to the
// server who that is, be it by AUTH_SYS or by Kerberos, is its own affair.
type Cred struct {
	UID, GID uint32
	// GIDs are the supplementary groups.
	GIDs []uint32
}

// FileType is the kind of a file.
type FileType uint8

const (
	Regular FileType = iota + 1
	Directory
	BlockDevice
	CharDevice
	SymbolicLink
	Socket
	FIFO
)

// Device is the number of a device node.
type Device struct{ Major, Minor uint32 }

// Attr is a file's attributes.
type Attr struct {
	Type     FileType
	Mode     uint32 // permission, set-id and sticky bits only
	Nlink    uint32
	UID, GID uint32
	Size     uint64
	Used     uint64 // bytes of storage
	Rdev     Device
	FSID     uint64
	FileID   uint64
	Atime    time.Time
	Mtime    time.Time
	Ctime    time.Time
	Change   ChangeID
}

// Wcc is weak cache consistency data (RFC 1813 section 2.6): the states just
// before and after an operation. Each may be missing.
type Wcc struct {
	Before PreChange
	After  PostAttr
}

// PreChange is a state that a server may leave out.
type PreChange struct {
	Set bool
	ID  ChangeID
}

// PostAttr is attributes that a server may leave out. They come with each READ and
// WRITE, and stand in its result: a pointer would cost an allocation.
type PostAttr struct {
	Set bool
	Attr
}

// TimeSet says how to set a time.
type TimeSet uint8

const (
	TimeKeep TimeSet = iota
	TimeServer
	TimeClient
)

// SetAttr is a change of attributes; nil fields stay as they are.
type SetAttr struct {
	Mode *uint32
	// Umask, where a file is made and Info.Umask says that it may be given, is what the server takes away from Mode
	// unless the file inherits an access control list.
	Umask    uint32
	UID, GID *uint32
	Size     *uint64
	SetAtime TimeSet
	SetMtime TimeSet
	Atime    time.Time
	Mtime    time.Time
}

// AccessMask is a set of rights (RFC 1813 section 3.3.4).
type AccessMask uint32

const (
	AccessRead    AccessMask = 0x01
	AccessLookup  AccessMask = 0x02
	AccessModify  AccessMask = 0x04
	AccessExtend  AccessMask = 0x08
	AccessDelete  AccessMask = 0x10
	AccessExecute AccessMask = 0x20
)

// FileRights are those that there are to a regular file.
const FileRights = AccessRead | AccessModify | AccessExtend | AccessExecute

// Found is the result of a lookup. Attr and Dir are nil where the server left
// them out; Dir may be there though the lookup failed.
type Found struct {
	Handle Handle
	Attr   *Attr
	Dir    *Attr
}

// Made is the result of making a file. State is that of the opening that comes
// with Create.
type Made struct {
	Handle Handle
	Attr   Attr
	Dir    Wcc
	State  OpenState
	// Late: the server left handle or attributes out of its answer, and they are of a
	// later moment.
	Late bool
}

// ReadResult says what a read delivered. EOF: nothing lies behind it.
type ReadResult struct {
	N    int
	EOF  bool
	Attr PostAttr
}

// Verifier changes when a server may have lost unstable writes.
type Verifier [8]byte

// Stable is how durable a write must be when it is answered.
type Stable uint8

const (
	Unstable Stable = 0
	DataSync Stable = 1
	FileSync Stable = 2
)

// WriteResult says what a write did: N bytes, as durably as Committed says, at
// least as asked for.
type WriteResult struct {
	N         int
	Committed Stable
	Verifier  Verifier
	Wcc       Wcc
}

// DirPos is a place in a directory to read on from.
type DirPos struct {
	Cookie   uint64
	Verifier Verifier
}

// Dirent is a directory entry. Handle and Attr may be missing even when asked
// for; Handle is then empty.
type Dirent struct {
	FileID uint64
	Name   string
	Cookie uint64
	Handle Handle
	Attr   *Attr
}

// DirPart is a part of a directory's listing.
type DirPart struct {
	Entries  []Dirent
	Verifier Verifier
	EOF      bool
	Dir      *Attr
}

// StatFS is the state of a file system: bytes and files, in all, free, and
// free for this user.
type StatFS struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
	NameMax                           uint32
}

// Info is what a server said of itself when it was mounted.
type Info struct {
	// Version is the protocol's, as in vers=.
	Version string
	// ReadMax and WriteMax bound one read or write: the least of the server's,
	// the transport's and the user's. ReadDirMax is the preferred size of a
	// directory part, in bytes.
	ReadMax, WriteMax, ReadDirMax int
	// MaxFileSize in bytes; TimeDelta is the server's time granularity.
	MaxFileSize uint64
	TimeDelta   time.Duration
	// Links and Symlinks: the file system has them. Homogeneous: the same for
	// every file. CanSetTime: times can be set exactly.
	Links, Symlinks, Homogeneous, CanSetTime bool
	NameMax, LinkMax                         uint32
	// NoTrunc: longer names are errors. CaseInsensitive: two names that
	// differ in case are one.
	NoTrunc, CaseInsensitive bool
	// Umask: see SetAttr.
	Umask bool
	// ACLs: the server has access control lists, and the Client is an ACLs.
	ACLs bool
	// NFS4ACLs: it has those of NFSv4, and the Client is an NFS4ACLs.
	NFS4ACLs bool
}
