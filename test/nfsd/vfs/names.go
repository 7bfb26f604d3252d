package vfs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// plain refuses what is not the name of an entry; "." and ".." are for the
// callers to judge.
func plain(name string) error {
	switch {
	case name == "":
		return unix.EINVAL
	case len(name) > 255:
		return unix.ENAMETOOLONG
	case strings.ContainsAny(name, "/\x00"):
		return unix.EACCES
	}
	return nil
}

func dots(name string) bool { return name == "." || name == ".." }

// Lookup refers to what name in dir names. The caller gives it back.
func (t *Tree) Lookup(c *Cred, dir *Node, name string, st *Stat) (*Node, error) {
	if !dir.IsDir() {
		return nil, unix.ENOTDIR
	}
	if err := plain(name); err != nil {
		return nil, err
	}
	if name == ".." && dir == t.root {
		name = "."
	}
	n, fd, err := t.lookupAs(c, dir, name, st)
	if err != nil {
		return nil, err
	}
	if n != nil {
		if err := t.Stat(n, st); err != nil {
			t.Put(n)
			return nil, err
		}
		return n, nil
	}
	if name == ".." && !t.beneath(fd) {
		closeFD(fd)
		return nil, unix.ESTALE
	}
	if n, err = t.adopt(fd, st); err != nil {
		return nil, err
	}
	if !dots(name) {
		t.noteChild(dir, name, st)
	}
	if t.cfg.Lossy && n.IsRegular() {
		if err := t.Stat(n, st); err != nil {
			t.Put(n)
			return nil, err
		}
	}
	return n, nil
}

// lookupAs looks a name up for c. What is in use already it finds by its handle
// and refers to; anything else it opens as a path. The only right it takes is
// that to search dir, which is mostly known already: that is cheaper than to
// become c and to return.
func (t *Tree) lookupAs(c *Cred, dir *Node, name string, st *Stat) (*Node, int, error) {
	if t.priv && c.UID != 0 {
		var dst Stat
		if err := t.stat(dir, &dst); err != nil {
			return nil, -1, err
		}
		has, err := t.Allowed(c, dir, &dst, MayExec)
		if err != nil {
			return nil, -1, err
		}
		if has == 0 {
			return nil, -1, unix.EACCES
		}
	}
	if !dots(name) {
		h, err := t.handleOfName(dir.fd, name, st)
		if err != nil {
			return nil, -1, err
		}
		if n := t.nodes.get(h); n != nil {
			t.noteChild(dir, name, st)
			return n, -1, nil
		}
	}
	fd, err := unix.Openat(dir.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return nil, fd, err
}

// beneath reports whether an open directory lies in the tree, or is its root: one
// that was moved out of it still has a handle, but no way up.
func (t *Tree) beneath(fd int) bool {
	at, owned := fd, false
	defer func() {
		if owned {
			closeFD(at)
		}
	}()
	var last inode
	for range maxDepth {
		var st Stat
		if statFD(at, &st) != nil || !t.sameMount(&st) {
			return false
		}
		k := t.inodeOf(&st)
		if k == t.rootID {
			return true
		}
		if k == last {
			return false // the top of everything
		}
		last = k
		up, err := unix.Openat(at, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		if owned {
			closeFD(at)
		}
		at, owned = up, true
	}
	return false
}

// beginChange prepares a change of dir's names: dir is locked and its
// attributes are in ch.Before. It must be followed by endChange when err is
// nil.
func (t *Tree) beginChange(dir *Node, ch *Change) error {
	if !dir.IsDir() {
		return unix.ENOTDIR
	}
	if t.cfg.ReadOnly {
		return unix.EROFS
	}
	dir.mu.Lock()
	if err := t.stat(dir, &ch.Before); err != nil {
		dir.mu.Unlock()
		return err
	}
	return nil
}

// endChange unlocks dir, and if err is nil makes the change durable.
func (t *Tree) endChange(dir *Node, ch *Change, err error) error {
	if err == nil {
		dir.changes.Add(1)
	}
	serr := t.stat(dir, &ch.After)
	dir.mu.Unlock()
	if err != nil {
		return err
	}
	// The change was made; that the directory is gone since does not undo it.
	if serr != nil {
		ch.After.Mask = 0
		return nil
	}
	return t.syncDir(dir)
}

// syncDir makes dir's names durable, unless that is not asked for.
func (t *Tree) syncDir(dir *Node) error {
	if t.cfg.Async {
		return nil
	}
	fd, err := t.reader(dir)
	if err != nil {
		return err
	}
	if err := fsync(fd); err != nil && err != unix.EINVAL {
		return err
	}
	return nil
}

// Remove unlinks a name that is not a directory's.
func (t *Tree) Remove(c *Cred, dir *Node, name string, ch *Change) error {
	if dots(name) {
		return unix.EINVAL
	}
	return t.unlink(c, dir, name, 0, ch)
}

// Rmdir removes an empty directory.
func (t *Tree) Rmdir(c *Cred, dir *Node, name string, ch *Change) error {
	switch name {
	case ".":
		return unix.EINVAL
	case "..":
		return unix.EEXIST
	}
	err := t.unlink(c, dir, name, unix.AT_REMOVEDIR, ch)
	if err == unix.EEXIST {
		return unix.ENOTEMPTY
	}
	return err
}

func (t *Tree) unlink(c *Cred, dir *Node, name string, flags int, ch *Change) error {
	if err := plain(name); err != nil {
		return err
	}
	if err := t.beginChange(dir, ch); err != nil {
		return err
	}
	var st Stat
	victim, known := t.handleOfName(dir.fd, name, &st)
	id, err := t.as(c)
	if err == nil {
		err = unix.Unlinkat(dir.fd, name, flags)
		id.drop()
	}
	if err == nil && known == nil {
		t.gone(dir, name, victim)
	}
	return t.endChange(dir, ch, err)
}

// gone closes the descriptors of a file that has lost a name: they would keep
// its storage.
func (t *Tree) gone(dir *Node, name, handle string) {
	t.forgetChild(dir, name, handle)
	n := t.nodes.get(handle)
	if n == nil {
		return
	}
	n.changes.Add(1)
	var st Stat
	// Stat drops what has no names left.
	_ = t.Stat(n, &st)
	t.Put(n)
}

// Rename moves a name. The directories' attributes are in from and to.
func (t *Tree) Rename(c *Cred, fromDir *Node, fromName string, toDir *Node, toName string, from, to *Change) error {
	if err := plain(fromName); err != nil {
		return err
	}
	if err := plain(toName); err != nil {
		return err
	}
	if dots(fromName) || dots(toName) {
		return unix.EINVAL
	}
	if !fromDir.IsDir() || !toDir.IsDir() {
		return unix.ENOTDIR
	}
	if fromDir == toDir {
		err := t.beginChange(fromDir, from)
		if err != nil {
			return err
		}
		err = t.rename(c, fromDir, fromName, toDir, toName)
		err = t.endChange(fromDir, from, err)
		*to = *from
		return err
	}
	first, second, chFirst, chSecond := fromDir, toDir, from, to
	if toDir.handle < fromDir.handle {
		first, second, chFirst, chSecond = toDir, fromDir, to, from
	}
	if err := t.beginChange(first, chFirst); err != nil {
		return err
	}
	if err := t.beginChange(second, chSecond); err != nil {
		return t.endChange(first, chFirst, err)
	}
	err := t.rename(c, fromDir, fromName, toDir, toName)
	serr := t.endChange(second, chSecond, err)
	err = t.endChange(first, chFirst, err)
	if err == nil {
		err = serr
	}
	return err
}

// rename is Rename with the directories locked.
func (t *Tree) rename(c *Cred, fromDir *Node, fromName string, toDir *Node, toName string) error {
	var st Stat
	moved, merr := t.handleOfName(fromDir.fd, fromName, &st)
	victim, verr := t.handleOfName(toDir.fd, toName, &st)
	id, err := t.as(c)
	if err != nil {
		return err
	}
	err = unix.Renameat(fromDir.fd, fromName, toDir.fd, toName)
	id.drop()
	if err != nil {
		if err == unix.EEXIST {
			err = unix.ENOTEMPTY
			if verr == nil && merr == nil {
				err = renameOnto(fromDir, fromName, toDir, toName)
			}
		}
		return err
	}
	if verr == nil && victim != moved {
		t.gone(toDir, toName, victim)
	}
	if merr == nil {
		t.changed(moved)
	}
	if !t.kernel && merr == nil {
		t.forgetChild(fromDir, fromName, moved)
		t.moveChild(toDir, toName, moved)
	}
	return nil
}

// renameOnto distinguishes what EEXIST means: a directory that is not empty, or a file of
// another kind.
func renameOnto(fromDir *Node, fromName string, toDir *Node, toName string) error {
	var from, to Stat
	if statAt(fromDir.fd, fromName, &from) != nil || statAt(toDir.fd, toName, &to) != nil || isDir(&from) != isDir(&to) {
		return unix.EEXIST
	}
	return unix.ENOTEMPTY
}

// Link gives n another name; st is filled with its attributes afterwards.
func (t *Tree) Link(c *Cred, n, dir *Node, name string, st *Stat, ch *Change) error {
	if err := plain(name); err != nil {
		return err
	}
	if dots(name) {
		return unix.EEXIST
	}
	if err := t.beginChange(dir, ch); err != nil {
		return err
	}
	// Through /proc, because AT_EMPTY_PATH takes a capability that the caller
	// lacks. The magic link leads to the file itself, even to a symbolic link.
	id, err := t.as(c)
	if err == nil {
		err = unix.Linkat(unix.AT_FDCWD, procPath(n.fd), dir.fd, name, unix.AT_SYMLINK_FOLLOW)
		id.drop()
	}
	if err == nil {
		n.changes.Add(1)
		if serr := t.Stat(n, st); serr != nil {
			st.Mask = 0
		} else {
			t.noteChild(dir, name, st)
		}
	}
	return t.endChange(dir, ch, err)
}
