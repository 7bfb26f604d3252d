package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// maxXattr is the largest extended attribute that Linux has (XATTR_SIZE_MAX).
const maxXattr = 64 << 10

// Xattrs reports whether the protocol has extended attributes of users. Nothing of
// them is cached: each call asks the server.
func (c *Cache) Xattrs() bool { return c.xattrs != nil }

// Umask reports whether the server takes a umask with the mode of a file that is made.
func (c *Cache) Umask() bool { return c.cl.Info().Umask }

// GetXattr returns i's extended attribute, named without "user.".
func (c *Cache) GetXattr(ctx context.Context, cr nfsclient.Cred, i *Inode, name string) ([]byte, error) {
	if c.xattrs == nil {
		return nil, nfsclient.ErrNotSupported
	}
	v, err := c.xattrs.GetXattr(ctx, cr, i.h, name, maxXattr)
	if err != nil {
		i.failed(err)
	}
	return v, err
}

// ListXattrs returns the names of i's extended attributes, without "user.".
func (c *Cache) ListXattrs(ctx context.Context, cr nfsclient.Cred, i *Inode) ([]string, error) {
	if c.xattrs == nil {
		return nil, nfsclient.ErrNotSupported
	}
	names, err := c.xattrs.ListXattrs(ctx, cr, i.h)
	if err != nil {
		i.failed(err)
	}
	return names, err
}

// SetXattr sets an extended attribute.
func (c *Cache) SetXattr(ctx context.Context, cr nfsclient.Cred, i *Inode, name string, value []byte, how nfsclient.SetXattr) error {
	return c.changeXattr("SETXATTR", i, func() (nfsclient.Wcc, error) {
		return c.xattrs.SetXattr(ctx, cr, i.h, name, value, how)
	})
}

// RemoveXattr takes an extended attribute away.
func (c *Cache) RemoveXattr(ctx context.Context, cr nfsclient.Cred, i *Inode, name string) error {
	return c.changeXattr("REMOVEXATTR", i, func() (nfsclient.Wcc, error) {
		return c.xattrs.RemoveXattr(ctx, cr, i.h, name)
	})
}

func (c *Cache) changeXattr(op string, i *Inode, call func() (nfsclient.Wcc, error)) error {
	if c.xattrs == nil {
		return nfsclient.ErrNotSupported
	}
	if err := c.altering.begin(op); err != nil {
		return err
	}
	defer c.altering.end()
	st := i.begin()
	w, err := call()
	i.mu.Lock()
	i.finish(st, &w, true)
	i.mu.Unlock()
	if err != nil {
		i.failed(err)
	}
	return err
}
