package fs

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// statusErrno maps what a server answered to what an application sees; it is
// the table of nfs(5) clients everywhere. Statuses not in it are EIO.
var statusErrno = map[nfsclient.Status]syscall.Errno{
	nfsclient.OK:             0,
	nfsclient.ErrPerm:        syscall.EPERM,
	nfsclient.ErrNoEnt:       syscall.ENOENT,
	nfsclient.ErrIO:          syscall.EIO,
	nfsclient.ErrNXIO:        syscall.ENXIO,
	nfsclient.ErrAccess:      syscall.EACCES,
	nfsclient.ErrExist:       syscall.EEXIST,
	nfsclient.ErrXDev:        syscall.EXDEV,
	nfsclient.ErrNoDev:       syscall.ENODEV,
	nfsclient.ErrNotDir:      syscall.ENOTDIR,
	nfsclient.ErrIsDir:       syscall.EISDIR,
	nfsclient.ErrInval:       syscall.EINVAL,
	nfsclient.ErrFBig:        syscall.EFBIG,
	nfsclient.ErrNoSpace:     syscall.ENOSPC,
	nfsclient.ErrReadOnly:    syscall.EROFS,
	nfsclient.ErrMlink:       syscall.EMLINK,
	nfsclient.ErrNameTooLong: syscall.ENAMETOOLONG,
	nfsclient.ErrNotEmpty:    syscall.ENOTEMPTY,
	nfsclient.ErrDQuot:       syscall.EDQUOT,
	nfsclient.ErrStale:       syscall.ESTALE,
	nfsclient.ErrRemote:      syscall.EREMOTE,
	nfsclient.ErrBadHandle:   syscall.ESTALE,
	nfsclient.ErrNotSupp:     syscall.EOPNOTSUPP,
	nfsclient.ErrTooSmall:    syscall.EIO,
	nfsclient.ErrBadType:     syscall.EINVAL,
	nfsclient.ErrJukebox:     syscall.EIO,
}

// errno turns any error of the layers below into the one number the kernel
// takes.
func errno(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if s, ok := nfsclient.StatusOf(err); ok {
		if e, known := statusErrno[s]; known {
			return fuse.Status(e)
		}
		return fuse.EIO
	}
	var rpc *transport.RPCError
	if e := chosen(err); e != 0 {
		return fuse.Status(e)
	}
	switch {
	case errors.As(err, &rpc) && rpc.Denied && rpc.Auth:
		return fuse.EACCES
	case errors.Is(err, errAborted):
		return fuse.EIO
	case errors.Is(err, context.Canceled):
		return fuse.EINTR
	case errors.Is(err, transport.ErrClosed):
		return fuse.Status(syscall.ENOTCONN)
	}
	return fuse.EIO
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
