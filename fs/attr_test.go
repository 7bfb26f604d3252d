package fs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

func TestErrno(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fuse.Status
	}{
		{nil, fuse.OK},
		{&nfsclient.Error{Op: "LOOKUP", Status: nfsclient.ErrNoEnt}, fuse.ENOENT},
		{fmt.Errorf("wrapped: %w", &nfsclient.Error{Op: "WRITE", Status: nfsclient.ErrDQuot}), fuse.Status(syscall.EDQUOT)},
		{&nfsclient.Error{Op: "READ", Status: 4711}, fuse.EIO},
		{&transport.Error{Fate: transport.Unknown, Err: transport.ErrTimeout}, fuse.EIO},
		{&transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Denied: true, Auth: true, Code: 1}}, fuse.EACCES},
		{&transport.Error{Fate: transport.Unknown, Err: context.Canceled}, fuse.EINTR},
		{&transport.Error{Fate: transport.Unknown, Err: errAborted}, fuse.EIO},
		{errAborted, fuse.EIO},
		{syscall.EBUSY, fuse.EBUSY},
		{fmt.Errorf("wrapped: %w", cache.ErrBusy), fuse.EBUSY},
		{errors.Join(errors.New("first"), cache.ErrBadMode), fuse.Status(syscall.EBADF)},
		// What a system call of ours failed with is no answer to an application.
		{&transport.Error{Fate: transport.NotSent, Err: fmt.Errorf("server: %w (%w)", transport.ErrTimeout,
			&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})}, fuse.EIO},
		{&transport.Error{Fate: transport.Unknown, Err: fmt.Errorf("server: %w (%w)", transport.ErrTimeout, syscall.ENETUNREACH)}, fuse.EIO},
		{fmt.Errorf("cache: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}), fuse.EIO},
		{fmt.Errorf("bufpool: %w", os.NewSyscallError("mmap", syscall.ENOMEM)), fuse.EIO},
		{&os.PathError{Op: "open", Path: "/dev/infiniband", Err: syscall.ENOENT}, fuse.EIO},
		{errors.New("anything"), fuse.EIO},
	} {
		if got := errno(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestDeviceNumbers compares with the encoding of the C library for numbers
// that fit the 12 and 20 bits of FUSE.
func TestDeviceNumbers(t *testing.T) {
	for _, d := range []nfsclient.Device{{Major: 0, Minor: 0}, {Major: 8, Minor: 1}, {Major: 0xfff, Minor: 0xfffff}, {Major: 259, Minor: 300}} {
		v := encodeDevice(d)
		if got := decodeDevice(v); got != d {
			t.Errorf("%v became %v", d, got)
		}
		if uint64(v) != unix.Mkdev(d.Major, d.Minor) {
			t.Errorf("%v: %#x, makedev gives %#x", d, v, unix.Mkdev(d.Major, d.Minor))
		}
	}
}

func TestTypes(t *testing.T) {
	for kind := nfsclient.Regular; kind <= nfsclient.FIFO; kind++ {
		if got, ok := typeOfMode(modeOfType(kind) | 0o755); !ok || got != kind {
			t.Errorf("type %d became %d, %v", kind, got, ok)
		}
	}
	if _, ok := typeOfMode(0o755); ok {
		t.Error("a mode without a type has one")
	}
	if modeOfType(200) != 0 {
		t.Error("an unknown type has a mode")
	}
}

func TestGranted(t *testing.T) {
	const r, l, m, e, d, x = nfsclient.AccessRead, nfsclient.AccessLookup, nfsclient.AccessModify,
		nfsclient.AccessExtend, nfsclient.AccessDelete, nfsclient.AccessExecute
	for _, c := range []struct {
		got, want nfsclient.AccessMask
		ok        bool
	}{
		{r, r, true}, {0, r, false}, {r, r | x, false},
		{m | e, m | e, true}, {m, m | e, true}, {d, m | e | d, false}, {m | e, m | e | d, true},
		{r | l, r | l | m | e | d, false}, {0, 0, true},
	} {
		if granted(c.got, c.want) != c.ok {
			t.Errorf("granted(%#x, %#x) is not %v", c.got, c.want, c.ok)
		}
	}
}
