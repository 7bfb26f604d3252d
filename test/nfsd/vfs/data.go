package vfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// Stable is how durable a write must be: the values of stable_how (RFC 1813
// section 3.3.7).
type Stable uint32

const (
	Unstable Stable = 0
	DataSync Stable = 1
	FileSync Stable = 2
)

// MaxFileSize is the largest offset that can be written.
const MaxFileSize = math.MaxInt64

// Read fills b from off on and returns how many bytes it read, whether the
// file ends there, and the attributes in st. Rights are judged by the
// attributes found after the read, before its data is let out.
func (t *Tree) Read(c *Cred, n *Node, off uint64, b []byte, st *Stat) (int, bool, error) {
	if err := dataFile(n); err != nil {
		return 0, false, err
	}
	fd, err := t.reader(n)
	if err != nil {
		return 0, false, err
	}
	if off > MaxFileSize {
		if err := t.Stat(n, st); err != nil {
			return 0, false, err
		}
		return 0, true, t.mayIO(c, n, st, MayRead)
	}
	b = b[:min(uint64(len(b)), MaxFileSize-off)]
	if t.cfg.Lossy {
		n.mu.Lock()
		defer n.mu.Unlock()
	}
	got, err := readAll(fd, b, int64(off))
	if serr := t.stat(n, st); serr != nil {
		return 0, false, serr
	}
	if perm := t.mayIO(c, n, st, MayRead); perm != nil {
		return 0, false, perm
	}
	if err != nil {
		return 0, false, err
	}
	if n.pend != nil {
		got = n.pend.overlay(b, off, got, st.Size)
	}
	// Another WRITE may have made the file longer since it was read: nothing, and not the
	// end, is what no server says.
	return got, off+uint64(got) >= st.Size || got == 0 && len(b) > 0, nil
}

// dataFile refuses what has no data.
func dataFile(n *Node) error {
	switch {
	case n.IsRegular():
		return nil
	case n.IsDir():
		return unix.EISDIR
	}
	return unix.EINVAL
}

// Change is a file's attributes before and after an operation on it. A half
// that could not be had is nil-valued: its Mask is 0.
type Change struct{ Before, After Stat }

// Write writes data, which it borrows, at off, and returns how many bytes and
// how durable they are.
func (t *Tree) Write(c *Cred, n *Node, off uint64, data []byte, how Stable, ch *Change) (int, Stable, error) {
	if err := dataFile(n); err != nil {
		return 0, 0, err
	}
	if t.cfg.ReadOnly {
		return 0, 0, unix.EROFS
	}
	if off > MaxFileSize || uint64(len(data)) > MaxFileSize-off {
		return 0, 0, unix.EFBIG
	}
	fd, err := t.writer(n)
	if err != nil {
		return 0, 0, t.explain(c, n, err)
	}
	done, how, err := t.writeLocked(c, n, fd, off, data, how, ch)
	if err != nil || how == Unstable {
		return done, how, err
	}
	return done, how, t.sync(n, fd, how == DataSync)
}

// explain makes an error of opening what it would be for c.
func (t *Tree) explain(c *Cred, n *Node, err error) error {
	var st Stat
	if err == unix.EACCES && t.priv && statFD(n.fd, &st) == nil {
		if perm := t.mayIO(c, n, &st, MayWrite); perm != nil {
			return perm
		}
	}
	return err
}

func (t *Tree) writeLocked(c *Cred, n *Node, fd int, off uint64, data []byte, how Stable, ch *Change) (int, Stable, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := t.stat(n, &ch.Before); err != nil {
		return 0, 0, err
	}
	if err := t.mayIO(c, n, &ch.Before, MayWrite); err != nil {
		ch.After = ch.Before
		return 0, 0, err
	}
	done := len(data)
	var err error
	if t.cfg.WriteFault != nil {
		if err := t.cfg.WriteFault(len(data)); err != nil {
			ch.After = ch.Before
			return 0, 0, err
		}
	}
	switch {
	case t.cfg.Lossy && how == Unstable && t.pending.Load()+int64(len(data)) <= t.cfg.LossyMax:
		t.keep(n, off, data)
	default:
		if t.cfg.Lossy {
			// What was written before must not overwrite this later.
			if err := t.apply(n); err != nil {
				return 0, 0, err
			}
			how = max(how, DataSync)
		}
		done, err = t.writeAs(c, fd, off, data, &ch.Before)
	}
	n.changes.Add(1)
	if serr := t.stat(n, &ch.After); err == nil {
		err = serr
	}
	return done, how, err
}

// writeAs writes as the server itself, whose descriptor has the right already;
// but for files with a set-id bit, which the kernel clears only for users who
// may not keep it.
func (t *Tree) writeAs(c *Cred, fd int, off uint64, data []byte, st *Stat) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		id, err := t.as(c)
		if err != nil {
			return 0, err
		}
		defer id.drop()
	}
	return writeAll(fd, data, int64(off))
}

// Commit makes all that was written to n durable.
func (t *Tree) Commit(n *Node, ch *Change) error {
	if err := dataFile(n); err != nil {
		return err
	}
	err := t.Stat(n, &ch.Before)
	if err != nil {
		return err
	}
	fd := int(n.wrFD.Load())
	if t.cfg.Lossy {
		n.mu.Lock()
		err = t.apply(n)
		n.mu.Unlock()
	}
	if fd < 0 && err == nil {
		fd, err = t.reader(n)
	}
	if err == nil {
		err = t.sync(n, fd, false)
	}
	if serr := t.Stat(n, &ch.After); err == nil {
		err = serr
	}
	return err
}

// sync is fsync or fdatasync. The kernel reports a failure once per
// descriptor, so no other goroutine may sync n before the failure is recorded.
func (t *Tree) sync(n *Node, fd int, dataOnly bool) error {
	if t.cfg.SyncFault == nil && t.cfg.SyncFailed == nil {
		return syncFD(fd, dataOnly)
	}
	n.syncMu.Lock()
	defer n.syncMu.Unlock()
	var err error
	if t.cfg.SyncFault != nil {
		err = t.cfg.SyncFault()
	}
	if err == nil {
		err = syncFD(fd, dataOnly)
	}
	if err != nil && t.cfg.SyncFailed != nil {
		t.cfg.SyncFailed()
	}
	return err
}

func syncFD(fd int, dataOnly bool) error {
	var err error
	if dataOnly {
		for err = unix.Fdatasync(fd); err == unix.EINTR; err = unix.Fdatasync(fd) {
		}
	} else {
		err = fsync(fd)
	}
	if err != nil {
		return &SyncError{err}
	}
	return nil
}

// Readlink reads the target of a symbolic link into b.
func (t *Tree) Readlink(n *Node, b []byte) (int, error) {
	if !n.IsSymlink() {
		return 0, unix.EINVAL
	}
	return unix.Readlinkat(n.fd, "", b)
}

// StatFS is the state of the tree's file system.
func (t *Tree) StatFS(n *Node, fs *unix.Statfs_t) error { return unix.Fstatfs(n.fd, fs) }
