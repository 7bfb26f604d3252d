package v4

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// statusOf is the status of an error of vfs (RFC 8881 section 15.1).
func statusOf(err error) wire.Status {
	if err == nil {
		return wire.OK
	}
	var no unix.Errno
	switch {
	case errors.As(err, &no):
		if st, ok := ofErrno[no]; ok {
			return st
		}
	case errors.Is(err, vfs.ErrBadHandle):
		return nfsclient.ErrBadHandle
	}
	return nfsclient.ErrIO
}

var ofErrno = map[unix.Errno]wire.Status{
	unix.EPERM:        nfsclient.ErrPerm,
	unix.ENOENT:       nfsclient.ErrNoEnt,
	unix.ENXIO:        nfsclient.ErrNXIO,
	unix.ENODEV:       nfsclient.ErrNXIO,
	unix.EACCES:       nfsclient.ErrAccess,
	unix.EEXIST:       nfsclient.ErrExist,
	unix.EXDEV:        nfsclient.ErrXDev,
	unix.ENOTDIR:      nfsclient.ErrNotDir,
	unix.ELOOP:        wire.ErrSymlink,
	unix.EISDIR:       nfsclient.ErrIsDir,
	unix.EINVAL:       nfsclient.ErrInval,
	unix.ERANGE:       nfsclient.ErrInval,
	unix.EFBIG:        nfsclient.ErrFBig,
	unix.EOVERFLOW:    nfsclient.ErrFBig,
	unix.ENOSPC:       nfsclient.ErrNoSpace,
	unix.EROFS:        nfsclient.ErrReadOnly,
	unix.EMLINK:       nfsclient.ErrMlink,
	unix.ENAMETOOLONG: nfsclient.ErrNameTooLong,
	unix.ENOTEMPTY:    nfsclient.ErrNotEmpty,
	unix.EDQUOT:       nfsclient.ErrDQuot,
	unix.ESTALE:       nfsclient.ErrStale,
	unix.EOPNOTSUPP:   nfsclient.ErrNotSupp,
	unix.ENOSYS:       nfsclient.ErrNotSupp,
	unix.ENODATA:      wire.ErrNoXattr,
	unix.E2BIG:        wire.ErrXattr2Big,
	unix.EBUSY:        wire.ErrFileOpen,
	unix.EAGAIN:       wire.ErrDelay,
	unix.ENOMEM:       wire.ErrDelay,
	unix.EMFILE:       wire.ErrDelay,
	unix.ENFILE:       wire.ErrDelay,
	unix.ETXTBSY:      wire.ErrDelay,
	unix.EINTR:        wire.ErrDelay,
	vfs.ErrBadCookie:  nfsclient.ErrBadCookie,
}
