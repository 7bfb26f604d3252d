package nfsclient

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/rdmafs/rdmafs/transport"
)

// statusErrno maps what a server answered to what an application sees; it is
// the table of nfs(5) clients everywhere. Statuses not in it are EIO.
var statusErrno = map[Status]syscall.Errno{
	OK:             0,
	ErrPerm:        syscall.EPERM,
	ErrNoEnt:       syscall.ENOENT,
	ErrIO:          syscall.EIO,
	ErrNXIO:        syscall.ENXIO,
	ErrAccess:      syscall.EACCES,
	ErrExist:       syscall.EEXIST,
	ErrXDev:        syscall.EXDEV,
	ErrNoDev:       syscall.ENODEV,
	ErrNotDir:      syscall.ENOTDIR,
	ErrIsDir:       syscall.EISDIR,
	ErrInval:       syscall.EINVAL,
	ErrFBig:        syscall.EFBIG,
	ErrNoSpace:     syscall.ENOSPC,
	ErrReadOnly:    syscall.EROFS,
	ErrMlink:       syscall.EMLINK,
	ErrNameTooLong: syscall.ENAMETOOLONG,
	ErrNotEmpty:    syscall.ENOTEMPTY,
	ErrDQuot:       syscall.EDQUOT,
	ErrStale:       syscall.ESTALE,
	ErrRemote:      syscall.EREMOTE,
	ErrBadHandle:   syscall.ESTALE,
	ErrNotSupp:     syscall.EOPNOTSUPP,
	ErrTooSmall:    syscall.EIO,
	ErrBadType:     syscall.EINVAL,
	ErrJukebox:     syscall.EIO,
}

// Errno is the number that an application is given for an error of a Client, or
// of what stands above one; 0 for nil. An error that has no number of its own
// is EIO.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if s, ok := StatusOf(err); ok {
		if e, known := statusErrno[s]; known {
			return e
		}
		return syscall.EIO
	}
	var rpc *transport.RPCError
	if e := chosen(err); e != 0 {
		return e
	}
	switch {
	case errors.As(err, &rpc) && rpc.Denied && rpc.Auth, errors.Is(err, transport.ErrNoCredential):
		return syscall.EACCES
	case errors.Is(err, transport.ErrTimedOut):
		return syscall.ETIMEDOUT
	case errors.Is(err, ErrLocked):
		return syscall.EAGAIN
	case errors.Is(err, ErrNotSupported):
		return syscall.EOPNOTSUPP
	case errors.Is(err, context.Canceled):
		return syscall.EINTR
	case errors.Is(err, transport.ErrClosed):
		return syscall.ENOTCONN
	}
	return syscall.EIO
}

// chosen is the errno that a layer chose for the application, 0 if none did. An
// errno that a system call of this process failed with is none: what happened
// to a socket (ECONNREFUSED), an adapter or a file of ours says nothing about
// the file that the application asked for.
func chosen(err error) syscall.Errno {
	switch e := err.(type) {
	case syscall.Errno:
		return e
	case *transport.Error, *net.OpError, *os.SyscallError, *os.PathError:
		return 0
	case interface{ Unwrap() error }:
		return chosen(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if n := chosen(err); n != 0 {
				return n
			}
		}
	}
	return 0
}
