package v4

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// directory is the current filehandle if names can be changed in it.
func (c *call) directory(o object) wire.Status {
	if st := inDirectory(o); st != wire.OK {
		return st
	}
	_, st := usable(o)
	return st
}

// changeInfo is what a change of a directory's names did to its change attribute. Nothing comes between the
// two but what is done on this host by others.
func changeInfo(ch *vfs.Change) wire.ChangeInfo {
	if ch.Before.Mask == 0 || ch.After.Mask == 0 {
		return wire.ChangeInfo{}
	}
	return wire.ChangeInfo{Atomic: true, Before: ch.Before.ChangeID(), After: ch.After.ChangeID()}
}

// create is CREATE (RFC 8881 section 18.4).
func (c *call) create(a *wire.Create) wire.Status {
	dir := c.cur
	if st := c.directory(dir); st != wire.OK {
		return st
	}
	if st := checkName(a.Name); st != wire.OK {
		return st
	}
	set, st := c.toSet(dir.ex, dir.node, &a.Attrs)
	if st != wire.OK {
		return st
	}
	if set.Set&vfs.SetSize != 0 {
		return nfsclient.ErrInval
	}
	cr := c.cred(dir.ex)
	t := dir.ex.Tree
	var fs vfs.Stat
	var ch vfs.Change
	var n *vfs.Node
	var err error
	mknod := func(kind uint32) (*vfs.Node, error) {
		return t.Mknod(&cr, dir.node, a.Name, kind, a.Dev.Major, a.Dev.Minor, &set, &fs, &ch)
	}
	switch a.Type {
	case nfsclient.Directory:
		n, err = t.Mkdir(&cr, dir.node, a.Name, &set, &fs, &ch)
	case nfsclient.SymbolicLink:
		n, err = t.Symlink(&cr, dir.node, a.Name, string(a.Target.Data), &set, &fs, &ch)
	case nfsclient.BlockDevice:
		n, err = mknod(unix.S_IFBLK)
	case nfsclient.CharDevice:
		n, err = mknod(unix.S_IFCHR)
	case nfsclient.Socket:
		n, err = mknod(unix.S_IFSOCK)
	case nfsclient.FIFO:
		n, err = mknod(unix.S_IFIFO)
	default:
		return nfsclient.ErrBadType
	}
	if err != nil {
		return statusOf(err)
	}
	a.Change, a.AttrSet = changeInfo(&ch), a.Attrs.Mask
	c.set(c.own(dir.ex, n))
	return wire.OK
}

// removing recalls what has been delegated of the file that loses a name, if there is one.
func (c *call) removing(dir object, name string) wire.Status {
	var st vfs.Stat
	cr := c.cred(dir.ex)
	n, err := dir.ex.Tree.Lookup(&cr, dir.node, name, &st)
	if err != nil {
		return wire.OK // the operation itself will say why
	}
	return c.conflict(c.own(dir.ex, n), writeData)
}

// remove is REMOVE (section 18.25) of whatever has the name.
func (c *call) remove(a *wire.Remove) wire.Status {
	dir := c.cur
	if st := c.directory(dir); st != wire.OK {
		return st
	}
	if st := checkName(a.Name); st != wire.OK {
		return st
	}
	if st := c.removing(dir, a.Name); st != wire.OK {
		return st
	}
	cr := c.cred(dir.ex)
	var ch vfs.Change
	err := dir.ex.Tree.Remove(&cr, dir.node, a.Name, &ch)
	if err == unix.EISDIR {
		err = dir.ex.Tree.Rmdir(&cr, dir.node, a.Name, &ch)
	}
	if err != nil {
		return statusOf(err)
	}
	a.Change = changeInfo(&ch)
	return wire.OK
}

// rename is RENAME (section 18.26).
func (c *call) rename(a *wire.Rename) wire.Status {
	from, to := c.saved, c.cur
	for _, d := range []object{from, to} {
		if st := c.directory(d); st != wire.OK {
			return st
		}
	}
	for _, name := range []string{a.From, a.To} {
		if st := checkName(name); st != wire.OK {
			return st
		}
	}
	if from.ex != to.ex {
		return nfsclient.ErrXDev
	}
	if st := c.removing(from, a.From); st != wire.OK {
		return st
	}
	if st := c.removing(to, a.To); st != wire.OK {
		return st
	}
	cr := c.cred(from.ex)
	var chFrom, chTo vfs.Change
	if err := from.ex.Tree.Rename(&cr, from.node, a.From, to.node, a.To, &chFrom, &chTo); err != nil {
		if err == unix.ENOTDIR || err == unix.EISDIR {
			err = unix.EEXIST // section 18.26.3: the kinds do not go together
		}
		return statusOf(err)
	}
	a.FromDir, a.ToDir = changeInfo(&chFrom), changeInfo(&chTo)
	return wire.OK
}

// link is LINK (section 18.9).
func (c *call) link(a *wire.Link) wire.Status {
	dir := c.cur
	if st := c.directory(dir); st != wire.OK {
		return st
	}
	o, st := usable(c.saved)
	switch {
	case o.dir != nil || st == wire.OK && o.node.IsDir():
		return nfsclient.ErrIsDir
	case st != wire.OK:
		return st
	}
	if st := checkName(a.Name); st != wire.OK {
		return st
	}
	if o.ex != dir.ex {
		return nfsclient.ErrXDev
	}
	if st := c.conflict(o, writeData); st != wire.OK {
		return st
	}
	cr := c.cred(dir.ex)
	var fs vfs.Stat
	var ch vfs.Change
	if err := dir.ex.Tree.Link(&cr, o.node, dir.node, a.Name, &fs, &ch); err != nil {
		return statusOf(err)
	}
	a.Change = changeInfo(&ch)
	return wire.OK
}
