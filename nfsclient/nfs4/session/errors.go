package session

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// Error says why the server has no session for us, or why a compound was not carried out.
type Error struct {
	// Host is the server as the user named it.
	Host string
	// Op is the operation, as in the RFC, and Status what the server answered; OK if it
	// was not asked.
	Op     string
	Status wire.Status
	Why    string
	Hint   string
	// Errno is what an application sees.
	Errno syscall.Errno
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "NFSv4 session with %s: ", e.Host)
	b.WriteString(e.Why)
	if e.Status != wire.OK {
		fmt.Fprintf(&b, ": the server answered %s with %s", e.Op, wire.StatusName(e.Status))
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap gives the number that an application sees.
func (e *Error) Unwrap() error { return e.Errno }

// hints are for statuses that somebody can do something about.
var hints = map[wire.Status]struct {
	hint  string
	errno syscall.Errno
}{
	wire.ErrMinorVersMismatch: {"it does not have this minor version: mount with another vers=", syscall.EPROTONOSUPPORT},
	wire.ErrClientIDInUse:     {"somebody else uses this client's owner string, or the credentials of the mount have changed: unmount, wait for the server's lease time, and mount again", syscall.EACCES},
	wire.ErrWrongSec:          {"it demands another sec=", syscall.EACCES},
	nfsclient.ErrAccess:       {"does the server let this host in?", syscall.EACCES},
	nfsclient.ErrPerm:         {"does the server let this host in?", syscall.EPERM},
	nfsclient.ErrTooSmall:     {"it has no room for replies as small as were asked for: this is a fault of rdmafs", syscall.EIO},
	nfsclient.ErrNoSpace:      {"it has no memory for another session", syscall.ENOSPC},
}

// answered is the error of a status that is not OK.
func (s *Session) answered(why string, op wire.Op, st wire.Status) *Error {
	e := &Error{Host: s.cf.Host, Op: op.String(), Status: st, Why: why, Errno: syscall.EIO}
	if h, ok := hints[st]; ok {
		e.Hint, e.Errno = h.hint, h.errno
	}
	return e
}

// broken is the error of a reply that cannot be one to our request.
func (s *Session) broken(format string, args ...any) error {
	return &transport.Error{Fate: transport.Answered,
		Err: fmt.Errorf("%w: NFSv4 session with %s: %s", transport.ErrProtocol, s.cf.Host, fmt.Sprintf(format, args...))}
}

// tooLarge is the error of a compound that exceeds what the server granted.
func (s *Session) tooLarge(what string, n, limit int) error {
	return &Error{Host: s.cf.Host, Errno: syscall.EIO, Hint: "this is a fault of rdmafs",
		Why: fmt.Sprintf("a compound was not sent: it has %d %s, and the server has granted %d", n, what, limit)}
}

// complain logs what the server should never have had to say: we have sent what exceeds the sizes
// that it has granted, or did not parse.
func (s *Session) complain(st wire.Status) {
	switch st {
	case wire.ErrReqTooBig, wire.ErrRepTooBig, wire.ErrRepTooBigToCache, wire.ErrTooManyOps, wire.ErrBadXDR, wire.ErrSequencePos, wire.ErrUnsafeCompound:
		s.cf.Log.Error(fmt.Sprintf("NFSv4 session with %s: a compound was refused with %s: this is a fault of rdmafs, or of the server", s.cf.Host, wire.StatusName(st)))
	}
}
