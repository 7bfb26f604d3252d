package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// made takes over the result of a call that creates name in dir.
func (c *Cache) made(ctx context.Context, st stamp, cr nfsclient.Cred, dir *Inode, name string, m nfsclient.Made, err error) (Entry, error) {
	if err != nil {
		c.changed(st, dir, m.Dir, name, nil, false)
		dir.failed(err)
		return Entry{}, err
	}
	child := c.intern(m.Handle, &m.Attr)
	child.mu.Lock()
	child.note(st, &m.Attr)
	child.mu.Unlock()
	ttl := c.changed(st, dir, m.Dir, name, child, true)
	if c.acls != nil && !m.Late {
		c.bornWithoutACL(dir, child)
	}
	return c.entry(ctx, child, ttl), nil
}

// changed ends a change in dir, after which name stands for child (nil: does not
// exist), or for something unknown if known is not set.
func (c *Cache) changed(st stamp, dir *Inode, w nfsclient.Wcc, name string, child *Inode, known bool) (ttl time.Duration) {
	dir.mu.Lock()
	dir.finish(st, &w, false)
	switch {
	case !known:
		dir.dropName(name)
		dir.node.Incomplete()
	default:
		dir.setName(name, child).shown = true
		ttl = dir.nameTTL(c.cfg.Now())
	}
	listed := dir.inListing
	dir.inListing = false
	dir.mu.Unlock()
	if k := c.cfg.Kernel; listed && k != nil {
		// A listing that is on its way to the kernel may have the attributes from before.
		// This makes the kernel ignore them. A directory has no pages to wait for.
		k.InvalidateInode(dir)
	}
	c.trimNames()
	return ttl
}

// Create makes a regular file and opens it. With exclusive it fails if the name
// exists; else a file that another client has made since the kernel's lookup is
// opened as by Open, if the user may. A size in s is ignored: mode.Truncate says
// that.
func (c *Cache) Create(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string, s nfsclient.SetAttr, exclusive bool, mode OpenMode) (Entry, *File, error) {
	if err := c.altering.begin("CREATE"); err != nil {
		return Entry{}, nil, err
	}
	defer c.altering.end()
	s.Size = nil
	st := dir.begin()
	m, err := c.cl.Create(ctx, cr, dir.h, name, s, exclusive || !opensAnew(&s, mode), mode.server())
	open := c.newOpening(cr, m.Handle, m.State)
	e, err := c.made(ctx, st, cr, dir, name, m, err)
	if status, ok := nfsclient.StatusOf(err); ok && status == nfsclient.ErrExist && !exclusive {
		return c.openFound(ctx, cr, dir, name, mode)
	}
	if err != nil {
		return Entry{}, nil, err
	}
	if e.Inode.typ != nfsclient.Regular {
		open.release()
		c.Forget(e.Inode, 1)
		return Entry{}, nil, ErrServer
	}
	return e, c.newFile(cr, e.Inode, mode, open), nil
}

// opensAnew reports whether the creator of a file with such a mode may open it
// again. A CREATE that is sent twice may then find the file and open it; where that
// would be refused, only an exclusive CREATE recognizes its own file.
func opensAnew(made *nfsclient.SetAttr, mode OpenMode) bool {
	if made.Mode == nil {
		return true
	}
	m := *made.Mode &^ made.Umask
	return (!mode.Read || m&0o400 != 0) && (!mode.Write && !mode.Truncate || m&0o200 != 0)
}

// openFound opens the file that has the name that was to be created. If it is no
// regular file, or is gone again, ESTALE makes the kernel repeat the path walk, which
// follows links.
func (c *Cache) openFound(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string, mode OpenMode) (Entry, *File, error) {
	again := localError("CREATE", nfsclient.ErrStale)
	e, err := c.lookupServer(ctx, cr, dir, name)
	if isNoEnt(err) {
		return Entry{}, nil, again
	}
	if err != nil {
		return Entry{}, nil, err
	}
	defer c.Forget(e.Inode, 1)
	if e.Inode.typ != nfsclient.Regular {
		return Entry{}, nil, again
	}
	f, _, err := c.Open(ctx, cr, e.Inode, mode)
	if err != nil {
		return Entry{}, nil, err
	}
	e.Inode.refs.Add(1)
	return c.entry(ctx, e.Inode, e.EntryTTL), f, nil
}

// Mkdir makes a directory.
func (c *Cache) Mkdir(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string, s nfsclient.SetAttr) (Entry, error) {
	if err := c.altering.begin("MKDIR"); err != nil {
		return Entry{}, err
	}
	defer c.altering.end()
	st := dir.begin()
	m, err := c.cl.Mkdir(ctx, cr, dir.h, name, s)
	e, err := c.made(ctx, st, cr, dir, name, m, err)
	if err == nil && !m.Late && !c.cl.Info().CaseInsensitive {
		e.Inode.mu.Lock()
		e.Inode.node.Born(st, &m.Attr)
		e.Inode.mu.Unlock()
	}
	return e, err
}

// Symlink makes a symbolic link to target.
func (c *Cache) Symlink(ctx context.Context, cr nfsclient.Cred, dir *Inode, name, target string, s nfsclient.SetAttr) (Entry, error) {
	if err := c.altering.begin("SYMLINK"); err != nil {
		return Entry{}, err
	}
	defer c.altering.end()
	st := dir.begin()
	m, err := c.cl.Symlink(ctx, cr, dir.h, name, target, s)
	return c.made(ctx, st, cr, dir, name, m, err)
}

// Mknod makes a device, socket or FIFO. A regular file is one that Create
// makes and closes.
func (c *Cache) Mknod(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string, kind nfsclient.FileType, dev nfsclient.Device, s nfsclient.SetAttr) (Entry, error) {
	if err := c.altering.begin("MKNOD"); err != nil {
		return Entry{}, err
	}
	defer c.altering.end()
	st := dir.begin()
	var m nfsclient.Made
	var err error
	if kind == nfsclient.Regular {
		s.Size = nil
		m, err = c.cl.Create(ctx, cr, dir.h, name, s, true, 0)
		c.newOpening(cr, m.Handle, m.State).release()
	} else {
		m, err = c.cl.Mknod(ctx, cr, dir.h, name, kind, dev, s)
	}
	return c.made(ctx, st, cr, dir, name, m, err)
}

// Link makes name in dir another name of i.
func (c *Cache) Link(ctx context.Context, cr nfsclient.Cred, i, dir *Inode, name string) (Entry, error) {
	if err := c.altering.begin("LINK"); err != nil {
		return Entry{}, err
	}
	defer c.altering.end()
	st := dir.begin()
	a, w, err := c.cl.Link(ctx, cr, i.h, dir.h, name)
	if err != nil {
		c.changed(st, dir, w, name, nil, false)
		i.failed(err)
		if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrExist {
			c.mayBeRelinked(ctx, i)
		}
		return Entry{}, err
	}
	i.mu.Lock()
	i.node.Relink()
	if a != nil {
		i.note(st, a)
	}
	i.node.Relinked(c.gen.Add(1))
	i.mu.Unlock()
	i.refs.Add(1)
	ttl := c.changed(st, dir, w, name, i, true)
	if a == nil {
		if err := c.revalidate(ctx, cr, i); err != nil {
			i.unpin()
			return Entry{}, err
		}
	}
	return c.entry(ctx, i, ttl), nil
}

// relink says that we have changed a name of i, and thus its link count and ctime,
// but not its content.
func (i *Inode) relink() {
	i.mu.Lock()
	i.relinkedLocked()
	i.mu.Unlock()
}

// relinkedLocked is relink; mu is held.
func (i *Inode) relinkedLocked() {
	i.node.Relink()
	i.node.Relinked(i.c.gen.Add(1))
}

// mayBeRelinked is relink after a call that failed as it does when it is sent again
// to a server that has executed it before a crash. For the kernel, a call that failed
// has changed nothing, so that it must drop its attributes.
func (c *Cache) mayBeRelinked(ctx context.Context, i *Inode) {
	i.mu.Lock()
	i.relinkedLocked()
	i.doubt()
	i.mu.Unlock()
	c.clear(ctx, i)
}

// Unlink removes a name that is no directory's. A file that is open here gets
// another name, and is removed when it is closed (sillyrename).
func (c *Cache) Unlink(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string) error {
	if err := c.altering.begin("REMOVE"); err != nil {
		return err
	}
	defer c.altering.end()
	child, err := c.target(ctx, cr, dir, name)
	if err != nil {
		return err
	}
	if child != nil {
		defer child.unpin()
		switch busy, hidden := child.inUse(dir, name); {
		case hidden:
			return ErrBusy
		case busy:
			return c.hide(ctx, cr, dir, name, child)
		}
	}
	st := dir.begin()
	w, err := c.cl.Remove(ctx, cr, dir.h, name)
	c.changed(st, dir, w, name, nil, err == nil)
	switch {
	case err != nil:
		dir.failed(err)
		if child != nil && isNoEnt(err) {
			c.mayBeRelinked(ctx, child)
		}
	case child != nil:
		child.relink()
		child.mu.Lock()
		child.removed = child.opens == 0 && child.node.Nlink <= 1
		child.mu.Unlock()
	}
	return err
}

// Rmdir removes an empty directory. One that holds a file that was removed
// while open, and is not closed soon, is not empty for the server, as with any NFS client: ENOTEMPTY.
func (c *Cache) Rmdir(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string) error {
	if err := c.altering.begin("RMDIR"); err != nil {
		return err
	}
	defer c.altering.end()
	child, err := c.target(ctx, cr, dir, name)
	if err != nil {
		return err
	}
	if child != nil {
		defer child.unpin()
	}
	err = c.emptying(ctx, child, func() error {
		st := dir.begin()
		w, err := c.cl.Rmdir(ctx, cr, dir.h, name)
		if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrNotEmpty {
			dir.mu.Lock()
			dir.finish(st, &w, false) // and the name is what it was
			dir.mu.Unlock()
			return err
		}
		c.changed(st, dir, w, name, nil, err == nil)
		return err
	})
	if err != nil {
		dir.failed(err)
	}
	return err
}

// Rename gives a file another name, replacing a file that has it. If that file is
// open here, it is removed when it is closed.
func (c *Cache) Rename(ctx context.Context, cr nfsclient.Cred, from *Inode, fromName string, to *Inode, toName string) error {
	if err := c.altering.begin("RENAME"); err != nil {
		return err
	}
	defer c.altering.end()
	moved, err := c.target(ctx, cr, from, fromName)
	if err != nil {
		return err
	}
	if moved != nil {
		defer moved.unpin()
	}
	victim, err := c.target(ctx, cr, to, toName)
	if err != nil {
		return err
	}
	var hidden *silly
	if victim != nil {
		defer victim.unpin()
		busy, isSilly := victim.inUse(to, toName)
		switch {
		case isSilly:
			return ErrBusy
		case busy && victim != moved:
			if err := c.hide(ctx, cr, to, toName, victim); err != nil {
				return err
			}
			victim.mu.Lock()
			hidden = victim.silly
			victim.mu.Unlock()
		}
	}
	err = c.emptying(ctx, victim, func() error {
		return c.rename(ctx, cr, from, fromName, to, toName, moved, moved != nil && moved == victim)
	})
	if err != nil {
		from.failed(err)
		to.failed(err)
		if hidden != nil {
			c.unhide(ctx, cr, victim, hidden, toName)
		}
		return err
	}
	for _, i := range []*Inode{moved, victim} {
		if i != nil {
			i.relink()
		}
	}
	return nil
}

// rename makes the call and caches the names that result. If both are of one file
// already, they stay (RFC 1813 section 3.3.14).
func (c *Cache) rename(ctx context.Context, cr nfsclient.Cred, from *Inode, fromName string, to *Inode, toName string, moved *Inode, both bool) error {
	st := from.begin()
	if to != from {
		to.begin()
	}
	fromDir, toDir, err := c.cl.Rename(ctx, cr, from.h, fromName, to.h, toName)
	if isNoEnt(err) && moved != nil && !both {
		// A server that executed the call before a crash no longer finds the name
		// when the call is sent again.
		if f, lerr := c.cl.Lookup(ctx, cr, to.h, toName); lerr == nil && f.Handle == moved.h {
			err = nil
		}
	}
	if err != nil {
		c.changed(st, from, fromDir, fromName, nil, false)
		if to != from {
			c.changed(st, to, toDir, toName, nil, false)
		}
		return err
	}
	if to == from {
		if !toDir.Before.Set {
			toDir.Before = fromDir.Before
		}
		from.mu.Lock()
		if both || moved == nil {
			from.dropName(fromName)
		} else {
			from.setName(fromName, nil)
		}
		from.mu.Unlock()
	} else {
		c.changed(st, from, fromDir, fromName, nil, !both)
	}
	c.changed(st, to, toDir, toName, moved, moved != nil)
	return nil
}

// cachedName is what name in i is known to stand for, pinned, or nil.
func (i *Inode) cachedName(name string) *Inode {
	i.mu.Lock()
	defer i.mu.Unlock()
	d := i.dentry(name)
	if d == nil || d.child == nil {
		return nil
	}
	d.child.refs.Add(1)
	return d.child
}
