package nfsd

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

const errStale = unix.ESTALE

// statusOf is the NFS status of an error of vfs (RFC 1813 section 2.6).
func statusOf(err error) nfsclient.Status {
	if err == nil {
		return nfsclient.OK
	}
	var no unix.Errno
	if errors.As(err, &no) {
		return statusOfErrno(no)
	}
	switch {
	case errors.Is(err, vfs.ErrBadHandle):
		return nfsclient.ErrBadHandle
	case errors.Is(err, vfs.ErrNotSync):
		return nfsclient.ErrNotSync
	}
	return nfsclient.ErrIO
}

func statusOfErrno(no unix.Errno) nfsclient.Status {
	switch no {
	case unix.EPERM:
		return nfsclient.ErrPerm
	case unix.ENOENT:
		return nfsclient.ErrNoEnt
	case unix.ENXIO:
		return nfsclient.ErrNXIO
	case unix.EACCES:
		return nfsclient.ErrAccess
	case unix.EEXIST:
		return nfsclient.ErrExist
	case unix.EXDEV:
		return nfsclient.ErrXDev
	case unix.ENODEV:
		return nfsclient.ErrNoDev
	case unix.ENOTDIR, unix.ELOOP: // a link where a directory should be
		return nfsclient.ErrNotDir
	case unix.EISDIR:
		return nfsclient.ErrIsDir
	case unix.EINVAL, unix.ERANGE:
		return nfsclient.ErrInval
	case unix.EFBIG, unix.EOVERFLOW:
		return nfsclient.ErrFBig
	case unix.ENOSPC:
		return nfsclient.ErrNoSpace
	case unix.EROFS:
		return nfsclient.ErrReadOnly
	case unix.EMLINK:
		return nfsclient.ErrMlink
	case unix.ENAMETOOLONG:
		return nfsclient.ErrNameTooLong
	case unix.ENOTEMPTY:
		return nfsclient.ErrNotEmpty
	case unix.EDQUOT:
		return nfsclient.ErrDQuot
	case unix.ESTALE:
		return nfsclient.ErrStale
	case unix.EOPNOTSUPP, unix.ENOSYS:
		return nfsclient.ErrNotSupp
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EBUSY, unix.ETXTBSY, unix.EINTR:
		return nfsclient.ErrJukebox
	case vfs.ErrBadCookie:
		return nfsclient.ErrBadCookie
	}
	return nfsclient.ErrIO
}

// mountStatusOf is the mountstat3 of an error.
func mountStatusOf(err error) wire.MountStatus {
	switch st := statusOf(err); st {
	case nfsclient.OK, nfsclient.ErrPerm, nfsclient.ErrNoEnt, nfsclient.ErrIO, nfsclient.ErrAccess, nfsclient.ErrNotDir,
		nfsclient.ErrInval, nfsclient.ErrNameTooLong, nfsclient.ErrNotSupp:
		return wire.MountStatus(st)
	}
	return wire.MountErrServerFault
}
