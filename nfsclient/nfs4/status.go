package nfs4

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// later: the server has done nothing, and asks to try again.
func later(s wire.Status) bool { return s == wire.ErrDelay || s == wire.ErrGrace }

// lostState: the server does not know the stateid, or not any more. STALE_STATEID is not one of
// minor version 1, but nfs-ganesha sends it.
func lostState(s wire.Status) bool {
	switch s {
	case wire.ErrBadStateid, wire.ErrExpired, wire.ErrAdminRevoked, wire.ErrDelegRevoked, wire.ErrStaleStateid, wire.ErrOldStateid:
		return true
	}
	return false
}

// like is what nfsclient has of a status that NFSv3 has not.
var like = map[wire.Status]nfsclient.Status{
	wire.ErrFHExpired:     nfsclient.ErrStale,
	wire.ErrNoFileHandle:  nfsclient.ErrServerFault,
	wire.ErrRestoreFH:     nfsclient.ErrServerFault,
	wire.ErrShareDenied:   nfsclient.ErrAccess,
	wire.ErrWrongSec:      nfsclient.ErrPerm,
	wire.ErrWrongCred:     nfsclient.ErrPerm,
	wire.ErrMoved:         nfsclient.ErrRemote,
	wire.ErrLeaseMoved:    nfsclient.ErrRemote,
	wire.ErrSymlink:       nfsclient.ErrInval,
	wire.ErrWrongType:     nfsclient.ErrInval,
	wire.ErrLockRange:     nfsclient.ErrInval,
	wire.ErrBadRange:      nfsclient.ErrInval,
	wire.ErrBadChar:       nfsclient.ErrInval,
	wire.ErrBadName:       nfsclient.ErrInval,
	wire.ErrAttrNotSupp:   nfsclient.ErrNotSupp,
	wire.ErrLockNotSupp:   nfsclient.ErrNotSupp,
	wire.ErrUnionNotSupp:  nfsclient.ErrNotSupp,
	wire.ErrOffloadDenied: nfsclient.ErrNotSupp,
	wire.ErrOpIllegal:     nfsclient.ErrNotSupp,
	wire.ErrNotSame:       nfsclient.ErrBadCookie,
	wire.ErrGrace:         nfsclient.ErrJukebox,
}

// errno is what an application is told for statuses that nfsclient has nothing for.
var errno = map[wire.Status]syscall.Errno{
	wire.ErrFileOpen:  syscall.EBUSY,
	wire.ErrOpenMode:  syscall.EBADF,
	wire.ErrDeadlock:  syscall.EDEADLK,
	wire.ErrNoXattr:   syscall.ENODATA,
	wire.ErrXattr2Big: syscall.E2BIG,
	wire.ErrLocksHeld: syscall.EBUSY,
	wire.ErrResource:  syscall.EREMOTEIO, // as on Linux
	wire.ErrReqTooBig: syscall.EIO,
	wire.ErrRepTooBig: syscall.EIO,
}

// answer is the error for a compound that has failed.
func (c *Client) answer(q *request) error { return statusOf(q.op, q.Status) }

// statusOf is the error for a status that is not OK.
func statusOf(op string, s wire.Status) error {
	switch {
	case s <= nfsclient.ErrJukebox:
		return &nfsclient.Error{Op: op, Status: s}
	case lostState(s) || s == wire.ErrBadOwner:
		return &statusError{op, s}
	case s == wire.ErrDenied || s == wire.ErrLocked:
		return fmt.Errorf("%s: %w", op, nfsclient.ErrLocked)
	}
	if l, ok := like[s]; ok {
		return &nfsclient.Error{Op: op, Status: l}
	}
	if e, ok := errno[s]; ok {
		return fmt.Errorf("%s: %s: %w", op, wire.StatusName(s), e)
	}
	return fmt.Errorf("%s: server answered %s: %w", op, wire.StatusName(s), syscall.EIO)
}

// settle turns an answer that is the client's own affair into one that the caller knows.
func settle(err error) error {
	var e *statusError
	if !errors.As(err, &e) {
		return err
	}
	if e.status == wire.ErrBadOwner {
		return &nfsclient.Error{Op: e.op, Status: nfsclient.ErrInval}
	}
	return fmt.Errorf("%s: the server has lost the state of the open file (%s): %w", e.op, wire.StatusName(e.status), syscall.EIO)
}
