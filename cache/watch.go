package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

var _ nfsclient.Watcher = (*Cache)(nil)

// Recalled implements nfsclient.Watcher.
func (c *Cache) Recalled(ctx context.Context, h nfsclient.Handle) (err error) {
	i := c.known(h)
	if i == nil {
		return nil
	}
	if i.typ == nfsclient.Regular {
		err = i.sync(ctx)
	}
	i.mu.Lock()
	i.apply(i.node.Recall(c.gen.Add(1)))
	i.mu.Unlock()
	i.unpin()
	return err
}

// Lost implements nfsclient.Watcher: writing and fsync report err for data that is
// not stable yet, as if it could not be written. With an owner, or of a file that was locked, it is a lock
// that is lost.
func (c *Cache) Lost(h nfsclient.Handle, owner *nfsclient.LockOwner, err error) {
	i := c.known(h)
	if i == nil {
		return
	}
	if c.lockLost(i, owner, err) {
		i.unpin()
		return
	}
	i.mu.Lock()
	// A file of which all is stable has lost nothing: what is read or written next has an error of its own.
	if i.typ == nfsclient.Regular && !i.wb.Empty() {
		i.ownWritten()
		i.fail(err)
	}
	i.apply(i.node.Recall(c.gen.Add(1)))
	i.mu.Unlock()
	i.unpin()
}

// known is the inode of h, pinned, or nil.
func (c *Cache) known(h nfsclient.Handle) *Inode {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.inode(h)
	if i != nil {
		i.refs.Add(1)
	}
	return i
}
