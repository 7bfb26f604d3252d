package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// ByHandle is the file that a handle stands for, whatever its name. Its Entry is of no name.
func (c *Cache) ByHandle(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (Entry, error) {
	st := c.stamp()
	a, err := c.cl.GetAttr(ctx, cr, h)
	if err != nil {
		return Entry{}, err
	}
	return c.found(ctx, st, h, &a), nil
}

// Parent is the directory that the server says dir is in. Its Entry is of no name.
func (c *Cache) Parent(ctx context.Context, cr nfsclient.Cred, dir *Inode) (Entry, error) {
	if dir.typ != nfsclient.Directory {
		return Entry{}, localError("LOOKUP", nfsclient.ErrNotDir)
	}
	st := c.stamp()
	r, err := c.cl.Lookup(ctx, cr, dir.h, "..")
	if err != nil {
		dir.failed(err)
		return Entry{}, err
	}
	a := r.Attr
	if a == nil {
		st = c.stamp()
		got, err := c.cl.GetAttr(ctx, cr, r.Handle)
		if err != nil {
			return Entry{}, err
		}
		a = &got
	}
	if a.Type != nfsclient.Directory {
		return Entry{}, ErrServer
	}
	return c.found(ctx, st, r.Handle, a), nil
}

// found is an Entry of what a call sent at st has found.
func (c *Cache) found(ctx context.Context, st stamp, h nfsclient.Handle, a *nfsclient.Attr) Entry {
	i := c.intern(h, a)
	i.mu.Lock()
	i.note(st, a)
	i.mu.Unlock()
	return c.entry(ctx, i, 0)
}
