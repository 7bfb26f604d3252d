package vfs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// CreateHow is createmode3 (RFC 1813 section 3.3.8).
type CreateHow uint8

const (
	Unchecked CreateHow = iota
	Guarded
	Exclusive
)

// Create makes a regular file, or with Unchecked, or Exclusive and the same
// verifier, finds it. The caller gives the node back.
func (t *Tree) Create(c *Cred, dir *Node, name string, how CreateHow, s *SetAttr, verf [8]byte, st *Stat, ch *Change) (*Node, error) {
	if err := t.checkNew(name); err != nil {
		return nil, err
	}
	if err := t.beginChange(dir, ch); err != nil {
		return nil, err
	}
	n, err := t.createFile(c, dir, name, how, s, verf, st)
	if err != unix.EEXIST || how == Guarded {
		return t.endMake(dir, n, name, st, ch, err)
	}
	n, err = t.existing(c, dir, name, how, verf, st)
	if err := t.endChange(dir, ch, err); err != nil {
		if n != nil {
			t.Put(n)
		}
		return nil, err
	}
	if how == Exclusive || s.Set&SetSize == 0 {
		return n, nil
	}
	// Of an existing file only the size is set, as open with O_TRUNC would.
	var inner Change
	if err := t.Setattr(c, n, &SetAttr{Set: SetSize, Size: s.Size}, nil, &inner); err != nil {
		t.Put(n)
		return nil, err
	}
	*st = inner.After
	return n, nil
}

func (t *Tree) checkNew(name string) error {
	if err := plain(name); err != nil {
		return err
	}
	if dots(name) {
		return unix.EEXIST
	}
	return nil
}

// endMake ends the change of a directory in which n was made, and makes n
// durable.
func (t *Tree) endMake(dir, n *Node, name string, st *Stat, ch *Change, err error) (*Node, error) {
	if err == nil {
		t.noteChild(dir, name, st)
	}
	err = t.endChange(dir, ch, err)
	if err == nil && n.IsRegular() && !t.cfg.Async {
		err = t.syncAttr(n)
	}
	if err != nil && n != nil {
		t.Put(n)
		n = nil
	}
	return n, err
}

func (t *Tree) createFile(c *Cred, dir *Node, name string, how CreateHow, s *SetAttr, verf [8]byte, st *Stat) (*Node, error) {
	mode := uint32(0o600)
	if how != Exclusive {
		mode = 0o666
		if s.Set&SetMode != 0 {
			mode = s.Mode & 0o7777
		}
	} else {
		s = verfTimes(verf)
	}
	if s.Set&SetSize != 0 && s.Size > MaxFileSize {
		return nil, unix.EFBIG
	}
	id, err := t.as(c)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Openat(dir.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	id.drop()
	if err != nil {
		return nil, err
	}
	n, err := t.finishFile(c, dir, fd, mode, s, st)
	if err != nil {
		t.undo(dir, name, 0)
		return nil, err
	}
	return n, nil
}

// finishFile gives a new file the attributes asked for and makes a node of it.
// It takes fd, which becomes the node's to write with.
func (t *Tree) finishFile(c *Cred, dir *Node, fd int, mode uint32, s *SetAttr, st *Stat) (*Node, error) {
	err := statFD(fd, st)
	if err == nil {
		err = t.finishAttrs(c, dir, fd, fd, mode, s, st)
	}
	path := -1
	if err == nil {
		path, err = reopen(fd, unix.O_PATH)
	}
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	n, err := t.adopt(path, st)
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	n.touch(t)
	n.ioMu.Lock()
	defer n.ioMu.Unlock()
	if n.wrFD.CompareAndSwap(-1, int32(fd)) {
		n.wrReads.Store(true)
	} else {
		closeFD(fd)
	}
	return n, nil
}

// finishAttrs sets of s what a new file does not have yet: what the process's
// umask took away, and everything that creating cannot give.
func (t *Tree) finishAttrs(c *Cred, dir *Node, fd, wr int, mode uint32, s *SetAttr, st *Stat) error {
	rest := *s
	rest.Set &^= SetMode
	if rest.Set&SetUID != 0 && rest.UID == st.Uid {
		rest.Set &^= SetUID
	}
	if rest.Set&SetGID != 0 && rest.GID == st.Gid {
		rest.Set &^= SetGID
	}
	if rest.Set&SetSize != 0 && (wr < 0 || rest.Size == st.Size) {
		rest.Set &^= SetSize
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK && (mode&t.umask != 0 && !inherits(dir) || rest.Set&(SetUID|SetGID) != 0 && mode&0o6000 != 0) {
		rest.Set |= SetMode
		rest.Mode = mode
		if isDir(st) {
			rest.Mode |= uint32(st.Mode) & unix.S_ISGID // as inherited
		}
	}
	if rest.Set == 0 && !rest.times() {
		return nil
	}
	if err := t.change(c, fd, wr, &rest, st); err != nil {
		return err
	}
	return statFD(fd, st)
}

// undo removes what could not be finished.
func (t *Tree) undo(dir *Node, name string, flags int) {
	// No client has seen the new file; if it cannot be removed it stays empty.
	_ = unix.Unlinkat(dir.fd, name, flags)
}

// verfTimes keeps an exclusive creation's verifier where it survives a crash
// with the file: as its times of last access and change.
func verfTimes(verf [8]byte) *SetAttr {
	a, m := verfSeconds(verf)
	return &SetAttr{Atime: NewTime{How: TimeSet, Sec: a}, Mtime: NewTime{How: TimeSet, Sec: m}}
}

// verfSeconds leaves out the bits that 32-bit times of some file systems lack.
func verfSeconds(verf [8]byte) (atime, mtime int64) {
	return int64(binary.BigEndian.Uint32(verf[:4]) & 0x7fffffff), int64(binary.BigEndian.Uint32(verf[4:]) & 0x7fffffff)
}

// existing is the file that stands in the way of a creation, if it will do.
func (t *Tree) existing(c *Cred, dir *Node, name string, how CreateHow, verf [8]byte, st *Stat) (*Node, error) {
	n, err := t.Lookup(c, dir, name, st)
	if err != nil {
		return nil, err
	}
	ok := n.IsRegular()
	if ok && how == Exclusive {
		a, m := verfSeconds(verf)
		ok = st.Size == 0 && st.Atime.Sec == a && st.Mtime.Sec == m && st.Mtime.Nsec == 0
	}
	if !ok {
		t.Put(n)
		return nil, unix.EEXIST
	}
	return n, nil
}

// Mkdir makes a directory. The caller gives the node back, here and below.
func (t *Tree) Mkdir(c *Cred, dir *Node, name string, s *SetAttr, st *Stat, ch *Change) (*Node, error) {
	mode := uint32(0o777)
	if s.Set&SetMode != 0 {
		mode = s.Mode & 0o7777
	}
	return t.makeName(c, dir, name, mode, unix.AT_REMOVEDIR, s, st, ch, func() error {
		return unix.Mkdirat(dir.fd, name, mode)
	})
}

// Symlink makes a symbolic link.
func (t *Tree) Symlink(c *Cred, dir *Node, name, target string, s *SetAttr, st *Stat, ch *Change) (*Node, error) {
	return t.makeName(c, dir, name, 0, 0, s, st, ch, func() error {
		return unix.Symlinkat(target, dir.fd, name)
	})
}

// Mknod makes a device, socket or FIFO; kind is one of S_IFMT.
func (t *Tree) Mknod(c *Cred, dir *Node, name string, kind uint32, major, minor uint32, s *SetAttr, st *Stat, ch *Change) (*Node, error) {
	mode := uint32(0o666)
	if s.Set&SetMode != 0 {
		mode = s.Mode & 0o7777
	}
	dev := uint64(0)
	if kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		dev = unix.Mkdev(major, minor)
	}
	return t.makeName(c, dir, name, mode, 0, s, st, ch, func() error {
		return unix.Mknodat(dir.fd, name, kind|mode, int(dev))
	})
}

func (t *Tree) makeName(c *Cred, dir *Node, name string, mode uint32, undo int, s *SetAttr, st *Stat, ch *Change, f func() error) (*Node, error) {
	if err := t.checkNew(name); err != nil {
		return nil, err
	}
	if err := t.beginChange(dir, ch); err != nil {
		return nil, err
	}
	id, err := t.as(c)
	if err == nil {
		err = f()
		id.drop()
	}
	if err != nil {
		return nil, t.endChange(dir, ch, err)
	}
	fd, err := unix.Openat(dir.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		if err = statFD(fd, st); err == nil {
			err = t.finishAttrs(c, dir, fd, -1, mode, s, st)
		}
		if err != nil {
			closeFD(fd)
			t.undo(dir, name, undo)
		}
	}
	var n *Node
	if err == nil {
		n, err = t.adopt(fd, st)
	}
	if err == nil {
		t.noteChild(dir, name, st)
	}
	if err := t.endChange(dir, ch, err); err != nil {
		if n != nil {
			t.Put(n)
		}
		return nil, err
	}
	return n, nil
}
