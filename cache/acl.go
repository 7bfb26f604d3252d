package cache

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// What is known of files with nothing to keep: none has only what the mode says, lacking
// is on a file system without access control lists.
var noACL, lackingACL nfsclient.ACL

// ACLs reports whether the server has access control lists.
func (c *Cache) ACLs() bool { return c.acls != nil }

// ACL returns i's access control lists: the access list if it says more than the mode, and
// a directory's default list. They are known for as long as the attributes are fresh and
// have not changed, as each change of a list changes ctime. ErrNotSupported: there are no
// such lists on i's file system.
func (c *Cache) ACL(ctx context.Context, cr nfsclient.Cred, i *Inode) (nfsclient.ACL, error) {
	if c.acls == nil {
		return noACL, nfsclient.ErrNotSupported
	}
	if i.typ == nfsclient.SymbolicLink {
		return noACL, nil
	}
	i.mu.Lock()
	known := i.acl
	if known != nil && !i.fresh(c.cfg.Now()) {
		known = nil
	}
	i.mu.Unlock()
	switch {
	case known == &lackingACL:
		return noACL, nfsclient.ErrNotSupported
	case known != nil:
		return *known, nil
	}
	return c.askACL(ctx, cr, i)
}

// askACL asks the server.
func (c *Cache) askACL(ctx context.Context, cr nfsclient.Cred, i *Inode) (nfsclient.ACL, error) {
	st := c.stamp()
	got, err := c.acls.GetACL(ctx, cr, i.h, i.typ == nfsclient.Directory)
	lacking := errors.Is(err, nfsclient.ErrNotSupported)
	if err != nil && !lacking {
		i.failed(err)
		return noACL, err
	}
	keep := &noACL
	switch {
	case lacking:
		keep = &lackingACL
	case len(got.Access) > 0 || len(got.Default) > 0:
		keep = &nfsclient.ACL{Access: got.Access, Default: got.Default}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	current := i.rights.Current(st)
	if a := got.Attr; a != nil {
		i.note(st, a)
		current = current && !i.node.ChangedAfter(a)
	}
	if current {
		i.acl = keep
	}
	return got, err
}

// SetACL sets i's access list or, with isDefault, the default list of a directory. An empty
// list takes it away. Written data is sent first, as by SetAttr.
func (c *Cache) SetACL(ctx context.Context, cr nfsclient.Cred, i *Inode, isDefault bool, l []nfsclient.ACE) error {
	if c.acls == nil || i.typ == nfsclient.SymbolicLink {
		return nfsclient.ErrNotSupported
	}
	if c.cfg.ReadOnly {
		return localError("SETACL", nfsclient.ErrReadOnly)
	}
	dir := i.typ == nfsclient.Directory
	var acl nfsclient.ACL
	switch {
	case dir:
		// The call sets both lists. Another client's change in between is lost; the protocol
		// has no remedy.
		var err error
		if acl, err = c.askACL(ctx, cr, i); err != nil {
			return err
		}
	case isDefault:
		if len(l) == 0 {
			return nil
		}
		return localError("SETACL", nfsclient.ErrAccess)
	default:
		if err := i.drain(ctx); err != nil {
			return err
		}
		if len(l) > 0 {
			// Only a list made from the mode needs it as it is now.
			i.mu.Lock()
			a := i.outward()
			i.mu.Unlock()
			acl.Attr = &a
		}
	}
	if isDefault {
		acl.Default = l
	} else {
		acl.Access = l
	}
	st := i.begin()
	a, err := c.acls.SetACL(ctx, cr, i.h, dir, acl)
	var w nfsclient.Wcc
	if a != nil {
		w.After = nfsclient.PostAttr{Set: true, Attr: *a}
	}
	i.mu.Lock()
	i.finish(st, &w, true)
	i.dropRights()
	i.mu.Unlock()
	if err != nil {
		i.failed(err)
	}
	return err
}

// bornWithoutACL notes that child, just made in dir, has no access control list if dir is
// known to have none for it.
func (c *Cache) bornWithoutACL(dir, child *Inode) {
	dir.mu.Lock()
	none := dir.inheritsNone()
	dir.mu.Unlock()
	if none {
		child.mu.Lock()
		child.acl = &noACL
		child.mu.Unlock()
	}
}

// inheritsNone reports whether what is made in dir is known to get no access control list
// from there; mu is held.
func (i *Inode) inheritsNone() bool {
	return i.acl != nil && len(i.acl.Default) == 0 && i.fresh(i.c.cfg.Now())
}
