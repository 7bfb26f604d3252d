package cache

import (
	"context"
	"time"

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
	i.disbelieve()
	i.unlock()
	i.unpin()
	return err
}

// Lost implements nfsclient.Watcher: writing and fsync report err, as for data
// that could not be written.
func (c *Cache) Lost(h nfsclient.Handle, err error) {
	i := c.known(h)
	if i == nil {
		return
	}
	i.mu.Lock()
	if i.typ == nfsclient.Regular {
		i.ownWritten()
		i.fail(err)
	}
	i.disbelieve()
	i.unlock()
	i.unpin()
}

// known is the inode of h, pinned, or nil.
func (c *Cache) known(h nfsclient.Handle) *Inode {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.inodes[h]
	if i != nil {
		i.refs.Add(1)
	}
	return i
}

// disbelieve drops what was learnt of i, and has the replies to calls that are
// under way not be believed for long either; mu is held.
func (i *Inode) disbelieve() {
	gen := i.c.gen.Add(1)
	i.mutGen, i.relinkGen = gen, gen
	i.expires = time.Time{}
	i.dropRights()
	i.detachSpans(0, maxOffset)
	i.forgetNames(true)
	if i.typ == nfsclient.Regular {
		i.doubt()
	}
}
