package hostile

import (
	"math/rand/v2"
	"os"
	"path/filepath"

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
		opened(file, unix.O_RDONLY, func(fd int) {
			_, _ = unix.Pread(fd, make([]byte, 300_000), r.Int64N(1<<20))
			_, _ = unix.Pread(fd, make([]byte, 5000), 1<<63-8192)
		})
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
		opened(own, unix.O_WRONLY|unix.O_CREAT, func(fd int) { _, _ = unix.Write(fd, make([]byte, r.IntN(200_000))) })
		_ = os.Truncate(own, int64(r.IntN(1000)))
		_ = os.Remove(own)
	}
}

// opened has f use a file that is opened without waiting. It is no os.File, of which a write that ends with EAGAIN, as
// one in a locked range may, waits until the file can be written to.
func opened(name string, flags int, f func(fd int)) {
	fd, err := unix.Open(name, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return
	}
	f(fd)
	_ = unix.Close(fd)
}

// copyTo has the server copy, and looks for holes in what comes of it.
func copyTo(from, to string) {
	opened(from, unix.O_RDONLY, func(src int) {
		opened(to, unix.O_RDWR|unix.O_CREAT, func(dst int) {
			_, _ = unix.CopyFileRange(src, nil, dst, nil, 300_000, 0)
			_, _ = unix.Seek(dst, 0, unix.SEEK_DATA)
			_, _ = unix.Seek(dst, 0, unix.SEEK_HOLE)
			_ = unix.Fallocate(dst, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 1000, 5000)
		})
	})
}

// lock takes locks without waiting, writes under them, and closes the file with one of them.
func lock(r *rand.Rand, file string) {
	opened(file, unix.O_RDWR|unix.O_CREAT, func(fd int) {
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: r.Int64N(100), Len: r.Int64N(100)}
		_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l)
		_, _ = unix.Write(fd, make([]byte, 5000))
		_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l)
		l.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l)
		_ = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	})
}
