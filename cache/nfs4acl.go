package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// NFS4ACLs reports whether the server has access control lists of NFSv4. None is cached.
func (c *Cache) NFS4ACLs() bool { return c.nfs4acls != nil }

// NFS4ACL is i's list, as XDR has it.
func (c *Cache) NFS4ACL(ctx context.Context, cr nfsclient.Cred, i *Inode) ([]byte, error) {
	if c.nfs4acls == nil || i.typ == nfsclient.SymbolicLink {
		return nil, nfsclient.ErrNotSupported
	}
	l, err := c.nfs4acls.GetNFS4ACL(ctx, cr, i.h)
	if err != nil {
		i.failed(err)
	}
	return l, err
}

// SetNFS4ACL sets i's list, and with it its mode.
func (c *Cache) SetNFS4ACL(ctx context.Context, cr nfsclient.Cred, i *Inode, l []byte) error {
	if c.nfs4acls == nil || i.typ == nfsclient.SymbolicLink {
		return nfsclient.ErrNotSupported
	}
	if err := c.altering.begin("SETACL"); err != nil {
		return err
	}
	defer c.altering.end()
	// What the old list allows to be written is written.
	if err := i.drain(ctx); err != nil {
		return err
	}
	st := i.begin()
	w, err := c.nfs4acls.SetNFS4ACL(ctx, cr, i.h, l)
	i.mu.Lock()
	i.finish(st, &w, true)
	i.dropRights() // the mode may be what it was
	i.mu.Unlock()
	if err != nil {
		i.failed(err)
	}
	return err
}
