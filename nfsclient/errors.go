package nfsclient

import (
	"errors"
	"fmt"
)

// Status is an NFS status, named for what every version has.
type Status uint32

// The values are those of nfsstat3 (RFC 1813 section 2.6).
const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrNXIO        Status = 6
	ErrAccess      Status = 13
	ErrExist       Status = 17
	ErrXDev        Status = 18
	ErrNoDev       Status = 19
	ErrNotDir      Status = 20
	ErrIsDir       Status = 21
	ErrInval       Status = 22
	ErrFBig        Status = 27
	ErrNoSpace     Status = 28
	ErrReadOnly    Status = 30
	ErrMlink       Status = 31
	ErrNameTooLong Status = 63
	ErrNotEmpty    Status = 66
	ErrDQuot       Status = 69
	ErrStale       Status = 70
	ErrRemote      Status = 71
	ErrBadHandle   Status = 10001
	ErrNotSync     Status = 10002
	ErrBadCookie   Status = 10003
	ErrNotSupp     Status = 10004
	ErrTooSmall    Status = 10005
	ErrServerFault Status = 10006
	ErrBadType     Status = 10007
	ErrJukebox     Status = 10008
)

var statusNames = map[Status]string{
	OK: "ok", ErrPerm: "not owner", ErrNoEnt: "no such file or directory", ErrIO: "I/O error",
	ErrNXIO: "no such device or address", ErrAccess: "permission denied", ErrExist: "file exists",
	ErrXDev: "cross-device link", ErrNoDev: "no such device", ErrNotDir: "not a directory",
	ErrIsDir: "is a directory", ErrInval: "invalid argument", ErrFBig: "file too large",
	ErrNoSpace: "no space left", ErrReadOnly: "read-only file system", ErrMlink: "too many links",
	ErrNameTooLong: "name too long", ErrNotEmpty: "directory not empty", ErrDQuot: "quota exceeded",
	ErrStale: "stale file handle", ErrRemote: "too many levels of remote in path",
	ErrBadHandle: "bad file handle", ErrNotSync: "update synchronization mismatch",
	ErrBadCookie: "stale directory cookie", ErrNotSupp: "not supported", ErrTooSmall: "buffer too small",
	ErrServerFault: "server fault", ErrBadType: "bad file type", ErrJukebox: "server asks to try later",
}

func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// Error is a server's answer that is not OK.
type Error struct {
	Op     string // the procedure, as in the RFC: "LOOKUP"
	Status Status
}

func (e *Error) Error() string { return e.Op + ": " + e.Status.String() }

// StatusOf is the server's status in err: OK for nil, and ok false when err did
// not come from the server.
func StatusOf(err error) (s Status, ok bool) {
	if err == nil {
		return OK, true
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Status, true
	}
	return 0, false
}
