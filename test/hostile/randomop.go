package hostile

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// RandomOp does one operation, chosen by r, on a mount whose server may lie, and
// ignores the outcome: on file, which may exist, or on own, which it makes and
// removes. Either may appear to be a FIFO, whose opening would wait for a writer,
// or to have a size beyond all memory.
func RandomOp(r *rand.Rand, file, own string) {
	switch r.IntN(7) {
	case 0:
		_, _ = os.Lstat(file)
		_, _ = os.Readlink(file)
	case 1:
		if d, err := os.Open(filepath.Dir(file)); err == nil {
			_, _ = d.Readdirnames(5000) // a listing may have no end
			_ = d.Close()
		}
	case 2:
		if f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			_, _ = f.ReadAt(make([]byte, 300_000), r.Int64N(1<<20))
			_, _ = f.ReadAt(make([]byte, 5000), 1<<63-8192)
			_ = f.Close()
		}
	case 3:
		_ = os.Mkdir(own, 0o700)
		_ = os.Symlink("x", filepath.Join(own, "link"))
		_ = os.Rename(own, own+"-moved")
		_ = os.Remove(filepath.Join(own+"-moved", "link"))
		_ = os.Remove(own + "-moved")
		_ = os.Link(file, own)
		_ = os.Remove(own)
	case 4:
		copyTo(file, own)
		_ = os.Remove(own)
	case 5:
		lock(r, own)
		_ = os.Remove(own)
	default:
		if f, err := os.OpenFile(own, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o600); err == nil {
			_, _ = f.Write(make([]byte, r.IntN(200_000)))
			_ = f.Close()
		}
		_ = os.Truncate(own, int64(r.IntN(1000)))
		_ = os.Remove(own)
	}
}

// copyTo has the server copy, and looks for holes in what comes of it.
func copyTo(from, to string) {
	src, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return
	}
	defer dst.Close()
	_, _ = unix.CopyFileRange(int(src.Fd()), nil, int(dst.Fd()), nil, 300_000, 0)
	_, _ = dst.Seek(0, unix.SEEK_DATA)
	_, _ = dst.Seek(0, unix.SEEK_HOLE)
	_ = unix.Fallocate(int(dst.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 1000, 5000)
}

// lock takes locks without waiting, writes under them, and closes the file with one of them.
func lock(r *rand.Rand, file string) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: r.Int64N(100), Len: r.Int64N(100)}
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	_, _ = f.Write(make([]byte, 5000))
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	l.Type = unix.F_UNLCK
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
}
