package cache

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// aclState is what is known of a file's access control lists.
type aclState uint8

const (
	aclUnknown aclState = iota
	aclNone             // there is nothing beyond the mode
	aclLacking          // the file system has no such lists
	aclListed           // they are in Inode.acl
)

// knowACL takes over what is known; mu is held.
func (i *Inode) knowACL(s aclState, acl *nfsclient.ACL) {
	i.acls = s
	if acl != i.acl {
		i.own()
		i.acl = acl
	}
}

// ACLs reports whether the server has access control lists.
func (c *Cache) ACLs() bool { return c.acls != nil }

// ACL returns i's access control lists: the access list if it says more than the mode, and
// a directory's default list. They are known for as long as the attributes are fresh and
// have not changed, as each change of a list changes ctime. ErrNotSupported: there are no
// such lists on i's file system.
func (c *Cache) ACL(ctx context.Context, cr nfsclient.Cred, i *Inode) (nfsclient.ACL, error) {
	if c.acls == nil {
		return nfsclient.ACL{}, nfsclient.ErrNotSupported
	}
	if i.typ == nfsclient.SymbolicLink {
		return nfsclient.ACL{}, nil
	}
	i.mu.Lock()
	known, acl := i.acls, i.acl
	if !i.fresh(c.cfg.Now()) {
		known = aclUnknown
	}
	i.mu.Unlock()
	switch known {
	case aclLacking:
		return nfsclient.ACL{}, nfsclient.ErrNotSupported
	case aclNone:
		return nfsclient.ACL{}, nil
	case aclListed:
		return *acl, nil
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
		return nfsclient.ACL{}, err
	}
	known := aclNone
	var keep *nfsclient.ACL
	switch {
	case lacking:
		known = aclLacking
	case len(got.Access) > 0 || len(got.Default) > 0:
		known, keep = aclListed, &nfsclient.ACL{Access: got.Access, Default: got.Default}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	current := i.rights.Current(st)
	if a := got.Attr; a != nil {
		i.note(st, a)
		current = current && !i.node.ChangedAfter(a)
	}
	if current {
		i.knowACL(known, keep)
	}
	return got, err
}

// SetACL sets i's access list or, with isDefault, the default list of a directory. An empty
// list takes it away. Written data is sent first, as by SetAttr.
func (c *Cache) SetACL(ctx context.Context, cr nfsclient.Cred, i *Inode, isDefault bool, l []nfsclient.ACE) error {
	if c.acls == nil || i.typ == nfsclient.SymbolicLink {
		return nfsclient.ErrNotSupported
	}
	if err := c.altering.begin("SETACL"); err != nil {
		return err
	}
	defer c.altering.end()
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
		child.knowACL(aclNone, nil)
		child.mu.Unlock()
	}
}

// inheritsNone reports whether what is made in dir is known to get no access control list
// from there; mu is held.
func (i *Inode) inheritsNone() bool {
	return i.acls != aclUnknown && (i.acl == nil || len(i.acl.Default) == 0) && i.fresh(i.c.cfg.Now())
}
