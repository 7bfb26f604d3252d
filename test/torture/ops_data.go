package torture

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/posix"
)

// most is the largest size of a file in bytes, and page what direct writes are
// aligned to.
const (
	most = 2 << 20
	page = 4096
)

// used is a file in use by one goroutine of a worker.
type used struct {
	*worker
	r     *rand.Rand
	n     int // of the worker's files
	path  string
	f     *os.File
	model file
	write uint32
	// size is the end of what was appended.
	size int64
	// low and high bound what is written, in bytes.
	low, high int64
	// whole is the size of the file if it is mapped.
	whole  int64
	buf    []byte
	mapped []byte
	// suspect is old data that was read although newer data had been written: that
	// happens after a background write has failed, which the next sync must report.
	suspect string
}

func (w *worker) flags() int {
	switch w.Kind {
	case "direct":
		return unix.O_DIRECT
	case "append":
		return os.O_APPEND
	}
	return 0
}

// useFile makes a file and uses it until the worker is stopped, or after an
// error of an append, after which the place of the next append is unknown. It
// returns false when the mount is gone.
func (w *worker) useFile(r *rand.Rand) bool {
	n := int(w.files.Add(1)) + w.base()
	u := &used{worker: w, r: r, n: n, path: fmt.Sprintf("w%d-%d", w.Number, n), high: most}
	u.model.id = uint32(w.Number*100_003 + n)
	if w.Kind == "mmap" {
		u.high = 256 << 10
	}
	u.whole = u.high
	if w.Shared != "" {
		u.path = w.Shared
		u.model.id = 1
		part := int64(128 << 10)
		u.low = int64(n-1+w.Number*w.Files) * part
		u.high = u.low + part
		u.whole = most
	}
	// O_DIRECT wants aligned memory.
	buf, err := unix.Mmap(-1, 0, most, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		w.emit(evBad, "memory:", err)
		return false
	}
	defer unix.Munmap(buf)
	u.buf = buf
	w.emit(evOpen, n, u.model.id, u.low, u.Kind == "mmap" || u.Shared != "", u.path)
	for !w.stop.Load() {
		err := u.open()
		if err == nil {
			err = u.use()
		}
		if err == nil {
			return true
		}
		if lasting(err) {
			return false
		}
		pause()
		if w.Kind == "append" {
			return true
		}
	}
	return true
}

func (u *used) failed(what string, err error) error {
	u.model.fail()
	u.suspect = ""
	u.emit(evError, u.n, int(number(err)), what, err)
	return err
}

func (u *used) open() error {
	f, err := os.OpenFile(u.path, os.O_CREATE|os.O_RDWR|u.flags(), 0o644)
	if err != nil {
		return u.failed("open", err)
	}
	u.f = f
	if u.Kind == "mmap" {
		if err := f.Truncate(u.whole); err != nil {
			err = u.failed("ftruncate", err)
			f.Close()
			return err
		}
		if u.mapped, err = unix.Mmap(int(f.Fd()), 0, int(u.whole), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			err = u.failed("mmap", err)
			f.Close()
			return err
		}
	}
	return nil
}

// close closes the file; what it says of data is believed unless stores through
// a mapping are meant.
func (u *used) close() error {
	if u.mapped != nil {
		_ = unix.Munmap(u.mapped)
		u.mapped = nil
	}
	u.emit(evSync, u.n)
	if err := u.f.Close(); err != nil {
		return u.failed("close", err)
	}
	if u.Kind != "mmap" {
		u.acknowledged("close")
	}
	return nil
}

// use works on the open file until the worker is stopped, or for a while.
func (u *used) use() error {
	for !u.stop.Load() {
		if err := u.step(); err != nil {
			if cerr := u.close(); cerr != nil && lasting(cerr) {
				return cerr
			}
			return err
		}
		if u.r.IntN(12) == 0 {
			if err := u.close(); err != nil {
				return err
			}
			if err := u.open(); err != nil {
				return err
			}
		}
	}
	if u.r.IntN(2) == 0 || u.Kind == "mmap" {
		if err := u.sync(); err != nil {
			_ = u.close()
			return err
		}
	}
	return u.close()
}

func (u *used) step() error {
	switch k := u.r.IntN(10); {
	case k < 5:
		return u.change()
	case k < 7:
		return u.sync()
	}
	return u.look()
}

// span is where to read or write next.
func (u *used) span() (off, n int64) {
	room := int((u.high - u.low) / unit)
	units := 1 + u.r.IntN(min(room, 4096))
	if u.r.IntN(16) == 0 {
		// More than one FUSE request.
		units = room * 3 / 4
	}
	if u.mapped != nil {
		units = min(units, 64<<10/unit) // what a pipe takes
	}
	o := u.r.IntN(room - units + 1)
	off, n = u.low+int64(o)*unit, int64(units)*unit
	if u.Kind == "direct" {
		off, n = off/page*page, (n+page-1)/page*page
		n = min(n, u.high-off)
	}
	return off, n
}

func (u *used) change() (err error) {
	off, n := u.span()
	if u.Kind == "append" {
		n = between(u.r, 1, 1024)
		if u.r.IntN(16) == 0 {
			n = 1<<20 + 512<<10
		}
		off = u.size
		if off+n > most {
			return u.sync()
		}
	}
	u.write++
	b := u.buf[:n]
	fill(b, u.model.id, off, u.write)
	unlock, err := u.lock(off, n)
	if err != nil {
		return u.failed("lock", err)
	}
	defer unlock()
	u.model.write(off, n, u.write)
	u.emit(evWrite, u.n, off, n, u.write)
	if u.Fork && u.r.IntN(3) == 0 {
		done := make(chan struct{})
		go func() { defer close(done); u.child(u.f) }()
		defer func() { <-done }()
	}
	switch {
	case u.mapped != nil:
		err = posix.Store(u.mapped[off:off+n], b)
	case u.Kind == "append":
		_, err = u.f.Write(b)
		u.size += n
	default:
		_, err = u.f.WriteAt(b, off)
	}
	if err != nil {
		return u.failed("write", err)
	}
	u.emit(evDone, u.n)
	return nil
}

// lock takes a lock of a part of a shared file.
func (u *used) lock(off, n int64) (unlock func(), err error) {
	if u.Shared == "" {
		return func() {}, nil
	}
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: off, Len: n}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = unix.FcntlFlock(u.f.Fd(), unix.F_OFD_SETLKW, &l)
	}
	return func() {
		l.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(u.f.Fd(), unix.F_OFD_SETLK, &l)
	}, err
}

func (u *used) sync() (err error) {
	u.emit(evSync, u.n)
	what := "fsync"
	switch {
	case u.mapped != nil && u.r.IntN(2) == 0:
		what, err = "msync", unix.Msync(u.mapped, unix.MS_SYNC)
	case u.r.IntN(3) == 0:
		what, err = "fdatasync", unix.Fdatasync(int(u.f.Fd()))
	default:
		err = u.f.Sync()
	}
	if err != nil {
		return u.failed(what, err)
	}
	u.acknowledged(what)
	return nil
}

func (u *used) acknowledged(by string) {
	if u.suspect != "" {
		u.emit(evBad, u.path, u.suspect+"; and then", by, "said that all is well")
		u.suspect = ""
	}
	u.model.acknowledge()
	u.emit(evAck, u.n)
}

func (u *used) look() error {
	off, n := u.span()
	got, err := u.f.ReadAt(u.buf[:n], off)
	if err != nil && err != io.EOF {
		return u.failed("read", err)
	}
	end := int64(len(u.model.last)) * unit
	want := max(0, min(n, end-off))
	b := u.buf[:got]
	if u.Kind == "mmap" || u.Shared != "" {
		b = b[:min(int64(got), want)] // behind it is what others wrote, or a hole
	} else if int64(got) < want && !u.model.inDoubt() {
		u.suspect = fmt.Sprintf("read of %d at %d gave %d bytes, want %d", n, off, got, want)
	}
	if _, err := u.model.read(b, off); errors.Is(err, errOlder) {
		u.suspect = fmt.Sprint("read: ", err)
	} else if err != nil {
		u.emit(evBad, u.path, "read:", err)
	}
	u.emit(evRead, u.n)
	return nil
}

// inDoubt reports whether an error leaves the size open.
func (f *file) inDoubt() bool {
	for _, x := range f.doubt {
		if x {
			return true
		}
	}
	return false
}
