package fs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// noRanges ends the kernel's asking for the life of the mount; it then does without. It is for
// protocols that have nothing of the kind: a server's file systems may differ.
const noRanges = fuse.ENOSYS

// Modes of fallocate(2).
const (
	fallocKeepSize  = 0x1
	fallocPunchHole = 0x2
)

// What lseek(2) looks for.
const (
	seekData = 3
	seekHole = 4
)

// Fallocate reserves storage, or makes a hole. The protocol has nothing that reserves storage behind
// the end and keeps the size.
func (f *FS) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if !f.cache.Ranges() {
		return noRanges
	}
	file, st := f.files.get(in.Fh)
	if !st.Ok() {
		return st
	}
	change := file.Allocate
	switch in.Mode {
	case 0:
	case fallocPunchHole | fallocKeepSize:
		change = file.Deallocate
	default:
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	off, n, ok := offsets(in.Offset, in.Length)
	if !ok {
		return fuse.Status(syscall.EFBIG)
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	return errno(change(ctx, off, n))
}

// Lseek is SEEK_DATA and SEEK_HOLE.
func (f *FS) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	if !f.cache.Ranges() {
		return noRanges
	}
	file, st := f.files.get(in.Fh)
	if !st.Ok() {
		return st
	}
	if in.Whence != seekData && in.Whence != seekHole {
		return fuse.EINVAL
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	at, err := file.Seek(ctx, int64(in.Offset), in.Whence == seekHole)
	if err != nil {
		return errno(err)
	}
	out.Offset = uint64(at)
	return fuse.OK
}

// CopyFileRange copies at the server. Where it says EOPNOTSUPP the kernel copies itself.
func (f *FS) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	if !f.cache.Ranges() {
		return 0, noRanges
	}
	from, st := f.files.get(in.FhIn)
	if !st.Ok() {
		return 0, st
	}
	var to *cache.File
	if to, st = f.files.get(in.FhOut); !st.Ok() {
		return 0, st
	}
	if in.Flags != 0 {
		return 0, fuse.EINVAL
	}
	off, n, ok := offsets(in.OffIn, in.Len)
	toOff, _, toOK := offsets(in.OffOut, 0)
	if !ok || !toOK {
		return 0, fuse.Status(syscall.EFBIG)
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	got, err := from.Copy(ctx, off, to, toOff, n)
	if err != nil {
		if s, known := nfsclient.StatusOf(err); known && s == nfsclient.ErrXDev {
			return 0, fuse.Status(syscall.EOPNOTSUPP)
		}
		return 0, errno(err)
	}
	return uint32(got), fuse.OK
}

// offsets are what the kernel says as signed numbers; ok is false where they are none.
func offsets(off, n uint64) (int64, int64, bool) {
	return int64(off), int64(n), int64(off) >= 0 && int64(n) >= 0
}
