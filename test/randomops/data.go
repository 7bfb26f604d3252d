package randomops

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/posix"
)

// slot is a file that is open on both sides.
type slot struct {
	files [2]*os.File
	flags int
	ino   uint64 // the local one
}

const (
	// farthest bounds offsets, longest what is written or read at once.
	farthest = 256 << 10
	longest  = 48 << 10
)

func (w *worker) open() error {
	at := w.r.IntN(len(w.slots))
	if err := w.closeSlot(at); err != nil {
		return err
	}
	name := w.name()
	flags := [...]int{os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_EXCL,
		os.O_RDWR | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_TRUNC}[w.r.IntN(7)]
	flags |= [...]int{0, 0, 0, os.O_APPEND, os.O_SYNC, unix.O_DIRECT, unix.O_DIRECT | os.O_APPEND}[w.r.IntN(7)]
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(w.roots[1], name), &st); w.noDirect || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		flags &^= unix.O_DIRECT // EINVAL for a FIFO
	}
	w.say("open %s with %#x in slot %d", name, flags, at)
	s := &slot{flags: flags}
	var got [2]error
	for k, root := range w.roots {
		mine := flags | unix.O_NONBLOCK
		if k == 1 {
			mine &^= unix.O_DIRECT // tmpfs may not have it, and it changes nothing that is compared
		}
		fd, err := unix.Open(filepath.Join(root, name), mine|unix.O_CLOEXEC, 0o644)
		if got[k] = err; err == nil {
			s.files[k] = os.NewFile(uintptr(fd), filepath.Join(root, name))
		}
	}
	if err := w.differ(got); err != nil || got[0] != nil {
		return errors.Join(err, s.close())
	}
	if err := unix.Fstat(int(s.files[1].Fd()), &st); err != nil {
		return errors.Join(err, s.close())
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return s.close()
	}
	s.ino = st.Ino
	w.slots[at] = s
	return nil
}

func (s *slot) close() (err error) {
	for _, f := range s.files {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

func (w *worker) close() error {
	at := w.r.IntN(len(w.slots))
	w.say("close slot %d", at)
	return w.closeSlot(at)
}

func (w *worker) closeSlot(at int) (err error) {
	if s := w.slots[at]; s != nil {
		err = s.close()
	}
	w.slots[at] = nil
	return err
}

func (w *worker) closeAll() (err error) {
	for at := range w.slots {
		err = errors.Join(err, w.closeSlot(at))
	}
	return err
}

func (w *worker) opened() bool {
	for _, s := range w.slots {
		if s != nil {
			return true
		}
	}
	return false
}

func (w *worker) isOpen(ino uint64) bool {
	for _, s := range w.slots {
		if s != nil && s.ino == ino {
			return true
		}
	}
	return false
}

// any is an open slot, or nil if there is none.
func (w *worker) any() (at int, s *slot) {
	first := w.r.IntN(len(w.slots))
	for k := range w.slots {
		at = (first + k) % len(w.slots)
		if w.slots[at] != nil {
			break
		}
	}
	return at, w.slots[at]
}

func (w *worker) bytes(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(w.r.Uint32())
	}
	return b
}

func (w *worker) write() error {
	at, s := w.any()
	if s == nil {
		return nil
	}
	off, b := w.r.Int64N(farthest), w.bytes(1+w.r.IntN(longest))
	if w.r.IntN(4) == 0 {
		b = b[:1+w.r.IntN(min(len(b), 100))]
	}
	w.say("write %d at %d in slot %d", len(b), off, at)
	var got [2]error
	for k, f := range s.files {
		// pwrite appends with O_APPEND; os.File refuses that.
		var n int
		if n, got[k] = unix.Pwrite(int(f.Fd()), b, off); got[k] == nil && n != len(b) {
			got[k] = fmt.Errorf("%d of %d bytes written", n, len(b))
		}
	}
	return w.differ(got)
}

func (w *worker) read() error {
	at, s := w.any()
	if s == nil {
		return nil
	}
	off, n := w.r.Int64N(farthest), 1+w.r.IntN(longest)
	w.say("read %d at %d in slot %d", n, off, at)
	return w.sameRead(s, off, n)
}

func (w *worker) sameRead(s *slot, off int64, n int) error {
	var bufs [2][]byte
	var got [2]error
	for k, f := range s.files {
		bufs[k] = make([]byte, n)
		m, err := unix.Pread(int(f.Fd()), bufs[k], off)
		bufs[k], got[k] = bufs[k][:max(m, 0)], err
	}
	if err := w.differ(got); err != nil {
		return err
	}
	return sameBytes(bufs[0], bufs[1])
}

func sameBytes(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for k := range min(len(got), len(want)) {
		if got[k] != want[k] {
			return fmt.Errorf("byte %d is %#x, locally %#x, of %d and %d", k, got[k], want[k], len(got), len(want))
		}
	}
	return fmt.Errorf("%d bytes, locally %d", len(got), len(want))
}

func (w *worker) truncate() error {
	at, s := w.any()
	if s == nil {
		return nil
	}
	size := w.r.Int64N(farthest)
	w.say("truncate slot %d to %d", at, size)
	var got [2]error
	for k, f := range s.files {
		got[k] = unix.Ftruncate(int(f.Fd()), size)
	}
	return w.differ(got)
}

func (w *worker) truncatePath() error {
	name, size := w.name(), w.r.Int64N(farthest)
	w.say("truncate %s to %d", name, size)
	_, err := w.both(func(root string) error { return unix.Truncate(filepath.Join(root, name), size) })
	return err
}

func (w *worker) sync() error {
	at, s := w.any()
	if s == nil {
		return nil
	}
	w.say("fsync slot %d", at)
	return s.files[0].Sync()
}

func (w *worker) statOpen() error {
	at, s := w.any()
	if s == nil {
		return nil
	}
	w.say("fstat slot %d", at)
	var st [2]unix.Stat_t
	for k, f := range s.files {
		if err := unix.Fstat(int(f.Fd()), &st[k]); err != nil {
			return err
		}
	}
	return w.sameStat(&st)
}

// forget has the kernel drop the file's clean pages.
func (w *worker) forget() error {
	at, s := w.any()
	if s == nil {
		return nil
	}
	w.say("drop pages of slot %d", at)
	return unix.Fadvise(int(s.files[0].Fd()), 0, 0, unix.FADV_DONTNEED)
}

// mapped reads or stores through a mapping.
func (w *worker) mapped() error {
	at, s := w.any()
	if s == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(s.files[1].Fd()), &st); err != nil || st.Size == 0 {
		return err
	}
	off := w.r.IntN(int(st.Size))
	n := 1 + w.r.IntN(min(int(st.Size)-off, longest))
	store, msync := w.r.IntN(2) == 0, w.r.IntN(3) == 0
	b := w.bytes(n)
	w.say("map slot %d and use %d at %d; store: %v, msync: %v", at, n, off, store, msync)
	var read [2][]byte
	for k, f := range s.files {
		m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		if store {
			err = posix.Store(m[off:], b)
		} else {
			read[k], err = load(m[off : off+n])
		}
		if err == nil && msync {
			err = unix.Msync(m, unix.MS_SYNC)
		}
		if err := errors.Join(err, unix.Munmap(m)); err != nil {
			return fmt.Errorf("side %d: %w", k, err)
		}
	}
	if store {
		w.inMap[s.ino] = true
	}
	return sameBytes(read[0], read[1])
}

// load copies from a mapping; the kernel faults its pages in, see posix.Store.
func load(mapping []byte) ([]byte, error) {
	fd, err := unix.MemfdCreate("mapping", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "mapping")
	defer f.Close()
	if _, err := f.Write(mapping); err != nil {
		return nil, err
	}
	b := make([]byte, len(mapping))
	_, err = f.ReadAt(b, 0)
	return b, err
}
