package vfs

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"
)

// userXattr begins the names of the attributes that users have; others are not reached.
const userXattr = "user."

const (
	// maxXattrName is XATTR_NAME_MAX, maxXattrList XATTR_LIST_MAX, MaxXattr XATTR_SIZE_MAX.
	maxXattrName = 255
	maxXattrList = 64 << 10
	MaxXattr     = 64 << 10
)

// GetXattr is the value of an extended attribute of n; its name is without "user.".
func (t *Tree) GetXattr(c *Cred, n *Node, name string) ([]byte, error) {
	full, err := xattrName(name)
	if err != nil {
		return nil, err
	}
	if err := t.mayXattr(c, n, MayRead); err != nil {
		return nil, err
	}
	b := make([]byte, MaxXattr)
	k, err := unix.Getxattr(procPath(n.fd), full, b)
	if err != nil {
		return nil, err
	}
	return b[:k:k], nil
}

// ListXattrs is the names of n's extended attributes, without "user.".
func (t *Tree) ListXattrs(c *Cred, n *Node) ([]string, error) {
	if err := t.mayXattr(c, n, 0); err != nil {
		return nil, err
	}
	b := make([]byte, maxXattrList)
	k, err := unix.Listxattr(procPath(n.fd), b)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range bytes.SplitSeq(b[:k], []byte{0}) {
		if s, ok := strings.CutPrefix(string(name), userXattr); ok && s != "" {
			names = append(names, s)
		}
	}
	return names, nil
}

// SetXattr sets an extended attribute; flags are those of setxattr(2).
func (t *Tree) SetXattr(c *Cred, n *Node, name string, value []byte, flags int, ch *Change) error {
	return t.changeXattr(c, n, name, ch, func(path, full string) error {
		return unix.Setxattr(path, full, value, flags)
	})
}

// RemoveXattr removes an extended attribute.
func (t *Tree) RemoveXattr(c *Cred, n *Node, name string, ch *Change) error {
	return t.changeXattr(c, n, name, ch, unix.Removexattr)
}

func (t *Tree) changeXattr(c *Cred, n *Node, name string, ch *Change, f func(path, full string) error) error {
	full, err := xattrName(name)
	if err != nil {
		return err
	}
	if t.cfg.ReadOnly {
		return unix.EROFS
	}
	if err := t.changeXattrLocked(c, n, ch, func() error { return f(procPath(n.fd), full) }); err != nil {
		return err
	}
	return t.syncAttr(n)
}

func (t *Tree) changeXattrLocked(c *Cred, n *Node, ch *Change, f func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := t.stat(n, &ch.Before); err != nil {
		return err
	}
	id, err := t.as(c)
	if err == nil {
		err = f()
		id.drop()
	}
	if err == nil {
		n.changes.Add(1)
	}
	if serr := t.stat(n, &ch.After); err == nil {
		err = serr
	}
	return err
}

func xattrName(name string) (string, error) {
	switch {
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return "", unix.EINVAL
	case len(name) > maxXattrName-len(userXattr):
		return "", unix.ENAMETOOLONG
	}
	return userXattr + name, nil
}

// mayXattr reports whether c may look at n's attributes: those who may read the file see
// values, everyone sees names.
func (t *Tree) mayXattr(c *Cred, n *Node, want uint32) error {
	var st Stat
	if err := t.Stat(n, &st); err != nil {
		return err
	}
	if want == 0 {
		return nil
	}
	has, err := t.Allowed(c, n, &st, want)
	if err == nil && has == 0 {
		err = unix.EACCES
	}
	return err
}

// Inherits reports whether what is made in dir gets its access list from there.
func (t *Tree) Inherits(dir *Node) bool { return inherits(dir) }
