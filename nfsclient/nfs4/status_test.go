package nfs4

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// No status of sessions, state or NFSv4 alone reaches the caller, and none is a success.
func TestStatusesStayInside(t *testing.T) {
	for s := wire.Status(1); s < wire.ErrXattr2Big+3; s++ {
		err := settle(statusOf("OP", s))
		if err == nil || !strings.Contains(err.Error(), "OP") {
			t.Fatalf("%s: %v", wire.StatusName(s), err)
		}
		if got, ok := nfsclient.StatusOf(err); ok && (got > nfsclient.ErrJukebox || got == nfsclient.OK) {
			t.Errorf("%s is shown as status %d", wire.StatusName(s), got)
		}
		if nfsclient.Errno(err) == 0 {
			t.Errorf("%s is no error to a program", wire.StatusName(s))
		}
	}
	for s, want := range map[wire.Status]syscall.Errno{
		nfsclient.ErrNoEnt: syscall.ENOENT, wire.ErrDenied: syscall.EAGAIN, wire.ErrLocked: syscall.EAGAIN, wire.ErrOpenMode: syscall.EBADF,
		wire.ErrDeadlock: syscall.EDEADLK, wire.ErrNoXattr: syscall.ENODATA, wire.ErrXattr2Big: syscall.E2BIG, wire.ErrShareDenied: syscall.EACCES,
		wire.ErrFHExpired: syscall.ESTALE, wire.ErrWrongSec: syscall.EPERM, wire.ErrBadOwner: syscall.EINVAL, wire.ErrAttrNotSupp: syscall.EOPNOTSUPP,
		wire.ErrBadStateid: syscall.EIO, wire.ErrExpired: syscall.EIO, wire.ErrFileOpen: syscall.EBUSY, wire.ErrBadSession: syscall.EIO,
	} {
		if got := nfsclient.Errno(settle(statusOf("OP", s))); got != want {
			t.Errorf("%s: %v, want %v", wire.StatusName(s), got, want)
		}
	}
	if !isBadOwner(statusOf("OP", wire.ErrBadOwner)) || isBadOwner(statusOf("OP", nfsclient.ErrInval)) {
		t.Error("BADOWNER is not told apart")
	}
	if !isLost(statusOf("OP", wire.ErrStaleStateid)) || isLost(statusOf("OP", nfsclient.ErrStale)) || isLost(errors.New("other")) {
		t.Error("lost state is not told apart")
	}
}
