package fs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// errno turns any error of the layers below into the one number the kernel
// takes.
func errno(err error) fuse.Status {
	n := nfsclient.Errno(err)
	if n == syscall.EINTR && errors.Is(err, errAborted) {
		n = syscall.EIO // see errAborted
	}
	return fuse.Status(n)
}
