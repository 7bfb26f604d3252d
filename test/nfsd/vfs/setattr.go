package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrNotSync: the file's ctime is not the guard.
var ErrNotSync = errors.New("file changed since")

// TimeHow says what to make of a time.
type TimeHow uint8

const (
	TimeKeep TimeHow = iota
	TimeNow
	TimeSet
)

// NewTime is a time to be set.
type NewTime struct {
	How  TimeHow
	Sec  int64
	Nsec int64
}

// SetAttr is a change of attributes: those named in Set, and times.
type SetAttr struct {
	Set            SetMask
	Mode, UID, GID uint32
	Size           uint64
	Atime, Mtime   NewTime
}

// SetMask names attributes.
type SetMask uint8

const (
	SetMode SetMask = 1 << iota
	SetUID
	SetGID
	SetSize
)

func (s *SetAttr) times() bool { return s.Atime.How != TimeKeep || s.Mtime.How != TimeKeep }

// Guard is the ctime that a file must have to be changed.
type Guard struct{ Sec, Nsec uint32 }

// Setattr changes n's attributes.
func (t *Tree) Setattr(c *Cred, n *Node, s *SetAttr, guard *Guard, ch *Change) error {
	if t.cfg.ReadOnly {
		return unix.EROFS
	}
	fd := -1
	if s.Set&SetSize != 0 {
		err := dataFile(n)
		if err == nil && s.Size > MaxFileSize {
			err = unix.EFBIG
		}
		if err == nil {
			if fd, err = t.writer(n); err != nil {
				err = t.explain(c, n, err)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := t.setattrLocked(c, n, fd, s, guard, ch); err != nil {
		return err
	}
	return t.syncAttr(n)
}

func (t *Tree) setattrLocked(c *Cred, n *Node, fd int, s *SetAttr, guard *Guard, ch *Change) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := t.stat(n, &ch.Before); err != nil {
		return err
	}
	now := ch.Before.Ctime
	if guard != nil && (guard.Sec != uint32(now.Sec) || guard.Nsec != now.Nsec) {
		ch.After = ch.Before
		return ErrNotSync
	}
	err := t.apply(n)
	if err == nil && fd >= 0 {
		err = t.mayIO(c, n, &ch.Before, MayWrite)
	}
	if err == nil {
		err = t.change(c, n.fd, fd, s, &ch.Before)
		n.changes.Add(1)
	}
	if serr := t.stat(n, &ch.After); err == nil {
		err = serr
	}
	return err
}

// change applies s to the file of fd, whose attributes are st, as c. wr is a
// descriptor to write with if the size is to change, else -1.
func (t *Tree) change(c *Cred, fd, wr int, s *SetAttr, st *Stat) error {
	id, err := t.as(c)
	if err != nil {
		return err
	}
	defer id.drop()
	if wr >= 0 && s.Set&SetSize != 0 {
		if err := unix.Ftruncate(wr, int64(s.Size)); err != nil {
			return err
		}
	}
	if s.Set&(SetUID|SetGID) != 0 {
		uid, gid := -1, -1
		if s.Set&SetUID != 0 {
			uid = int(s.UID)
		}
		if s.Set&SetGID != 0 {
			gid = int(s.GID)
		}
		if s.Set&SetUID != 0 && s.UID == ^uint32(0) || s.Set&SetGID != 0 && s.GID == ^uint32(0) {
			return unix.EINVAL
		}
		if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if s.Set&SetMode != 0 {
		if err := chmodFD(fd, s.Mode&0o7777); err != nil {
			return err
		}
	}
	if s.times() {
		ts := []unix.Timespec{s.Atime.timespec(), s.Mtime.timespec()}
		if err := unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	return nil
}

func (n NewTime) timespec() unix.Timespec {
	switch n.How {
	case TimeNow:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case TimeSet:
		return unix.Timespec{Sec: n.Sec, Nsec: n.Nsec}
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}

// syncAttr makes n's attributes durable, unless that is not asked for. What
// cannot be opened for that takes the whole file system along.
func (t *Tree) syncAttr(n *Node) error {
	switch {
	case t.cfg.Async:
		return nil
	case n.IsDir():
		return t.syncDir(n)
	case !n.IsRegular():
		return unix.Syncfs(t.root.rd())
	}
	fd := int(n.wrFD.Load())
	if fd < 0 {
		var err error
		if fd, err = t.reader(n); err != nil {
			return err
		}
	}
	return t.sync(n, fd, false)
}
