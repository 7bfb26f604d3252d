package vfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// Seek finds the first data, or the first hole, at off or behind it. eof: there is none, and
// at is the end of the file. off must lie within the file, else it is ENXIO.
func (t *Tree) Seek(c *Cred, n *Node, off uint64, hole bool) (at uint64, eof bool, err error) {
	if err := dataFile(n); err != nil {
		return 0, false, err
	}
	var st Stat
	if err := t.Stat(n, &st); err != nil {
		return 0, false, err
	}
	if err := t.mayIO(c, n, &st, MayRead); err != nil {
		return 0, false, err
	}
	if off >= st.Size {
		return 0, false, unix.ENXIO
	}
	// Unstable writes in memory are no holes.
	if err := t.settled(n); err != nil {
		return 0, false, err
	}
	fd, err := t.openRead(n)
	if err != nil {
		return 0, false, err
	}
	defer closeFD(fd)
	whence := unix.SEEK_DATA
	if hole {
		whence = unix.SEEK_HOLE
	}
	p, err := unix.Seek(fd, int64(off), whence)
	if err == unix.ENXIO && !hole {
		return st.Size, true, nil // only a hole is left
	}
	if err != nil {
		return 0, false, err
	}
	return uint64(p), hole && uint64(p) >= st.Size, nil
}

// openRead opens n's file for one operation: a seek moves the offset of the descriptor.
func (t *Tree) openRead(n *Node) (int, error) {
	n.ioMu.Lock()
	defer n.ioMu.Unlock()
	return t.reopenAsOwner(n, unix.O_RDONLY, 0o400)
}

// settled carries out the writes that are kept of n.
func (t *Tree) settled(n *Node) error {
	if !t.cfg.Lossy {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return t.apply(n)
}

// Allocate reserves storage for a range, which makes the file longer if it ends before.
func (t *Tree) Allocate(c *Cred, n *Node, off, length uint64, ch *Change) error {
	return t.fallocate(c, n, 0, off, length, ch)
}

// Deallocate makes a range a hole. The file's length stays.
func (t *Tree) Deallocate(c *Cred, n *Node, off, length uint64, ch *Change) error {
	return t.fallocate(c, n, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, length, ch)
}

func (t *Tree) fallocate(c *Cred, n *Node, mode uint32, off, length uint64, ch *Change) error {
	if length == 0 || off > math.MaxInt64 || length > math.MaxInt64-off {
		return unix.EINVAL
	}
	return t.changeData(c, n, ch, func(fd int) error {
		for {
			if err := unix.Fallocate(fd, mode, int64(off), int64(length)); err != unix.EINTR {
				return err
			}
		}
	})
}

// changeData lets f change n's data, with n locked, and makes that durable.
func (t *Tree) changeData(c *Cred, n *Node, ch *Change, f func(fd int) error) error {
	if err := dataFile(n); err != nil {
		return err
	}
	if t.cfg.ReadOnly {
		return unix.EROFS
	}
	fd, err := t.writer(n)
	if err != nil {
		return t.explain(c, n, err)
	}
	if err := t.changeLocked(c, n, ch, func() error { return f(fd) }); err != nil {
		return err
	}
	return t.sync(n, fd, false)
}

func (t *Tree) changeLocked(c *Cred, n *Node, ch *Change, f func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := t.stat(n, &ch.Before); err != nil {
		return err
	}
	err := t.mayIO(c, n, &ch.Before, MayWrite)
	if err == nil {
		err = t.apply(n)
	}
	if err == nil {
		err = f()
	}
	n.changes.Add(1)
	if serr := t.stat(n, &ch.After); err == nil {
		err = serr
	}
	return err
}

// maxCopy bounds the bytes of one Copy, and with them how long it takes.
const maxCopy = 4 << 20

// Copy copies at most n bytes, all to the end with 0, from one file to another or to another
// place in it, and returns how many. They are as durable as unstable writes.
func (t *Tree) Copy(c *Cred, from *Node, fromOff uint64, to *Node, toOff, n uint64, ch *Change) (uint64, error) {
	src, st, err := t.source(c, from)
	if err != nil {
		return 0, err
	}
	defer closeFD(src)
	if fromOff > st.Size || n > st.Size-fromOff {
		return 0, unix.EINVAL // RFC 7862 section 15.2.3
	}
	if n == 0 {
		n = st.Size - fromOff
	}
	n = min(n, maxCopy)
	if from == to && fromOff < toOff+n && toOff < fromOff+n {
		return 0, unix.EINVAL
	}
	if toOff > MaxFileSize-n {
		return 0, unix.EFBIG
	}
	if err := dataFile(to); err != nil {
		return 0, err
	}
	if t.cfg.ReadOnly {
		return 0, unix.EROFS
	}
	dst, err := t.writer(to)
	if err != nil {
		return 0, t.explain(c, to, err)
	}
	var done uint64
	err = t.changeLocked(c, to, ch, func() error {
		var err error
		done, err = copyRange(src, int64(fromOff), dst, int64(toOff), n)
		return err
	})
	return done, err
}

// source opens a file that data is taken from.
func (t *Tree) source(c *Cred, n *Node) (fd int, st Stat, err error) {
	if err := dataFile(n); err != nil {
		return -1, st, err
	}
	if err := t.settled(n); err != nil {
		return -1, st, err
	}
	if err := t.Stat(n, &st); err != nil {
		return -1, st, err
	}
	if err := t.mayIO(c, n, &st, MayRead); err != nil {
		return -1, st, err
	}
	fd, err = t.openRead(n)
	return fd, st, err
}

// copyRange is copy_file_range, by reading and writing where that cannot be. An error after some
// bytes were copied is left for the next call to meet.
func copyRange(src int, from int64, dst int, to int64, n uint64) (done uint64, err error) {
	var buf []byte
	for done < n {
		a, b := from+int64(done), to+int64(done)
		var k int
		if buf == nil {
			k, err = unix.CopyFileRange(src, &a, dst, &b, int(n-done), 0)
			if err == unix.EXDEV || err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EINVAL {
				buf = make([]byte, min(n, 1<<20))
				continue
			}
		} else if k, err = readAll(src, buf[:min(n-done, uint64(len(buf)))], a); err == nil {
			k, err = writeAll(dst, buf[:k], b)
		}
		switch {
		case err == unix.EINTR:
		case err != nil && done == 0:
			return 0, err
		case err != nil || k == 0:
			return done, nil
		default:
			done += uint64(k)
		}
	}
	return done, nil
}

// Clone makes a range of a file share the storage of another, where the file system can; n 0
// means to the end.
func (t *Tree) Clone(c *Cred, from *Node, fromOff uint64, to *Node, toOff, n uint64, ch *Change) error {
	src, st, err := t.source(c, from)
	if err != nil {
		return err
	}
	defer closeFD(src)
	if fromOff > st.Size || n > st.Size-fromOff {
		return unix.EINVAL
	}
	return t.changeData(c, to, ch, func(fd int) error {
		return unix.IoctlFileCloneRange(fd, &unix.FileCloneRange{
			Src_fd: int64(src), Src_offset: fromOff, Src_length: n, Dest_offset: toOff,
		})
	})
}
