package cache

import "context"

// notice is something that the kernel must be told; name is empty for an
// inode. The inode is pinned until it was told.
type notice struct {
	ino  *Inode
	name string
}

// tell queues a notice. It may be called with any lock but Cache.mu held.
func (c *Cache) tell(n notice) {
	if c.cfg.Kernel == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if k := len(c.notices); k > 0 && c.notices[k-1] == n {
		return
	}
	n.ino.refs.Add(1)
	c.notices = append(c.notices, n)
	select {
	case c.noticed <- struct{}{}:
	default:
	}
}

// runNotices tells the kernel, on a goroutine of its own: invalidating pages
// waits for reads of them, and it is in such a read's reply that a change may
// have been noticed.
func (c *Cache) runNotices(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			c.mu.Lock()
			left := c.notices
			c.notices = nil
			c.mu.Unlock()
			for _, n := range left {
				n.ino.unpin()
			}
			return
		case <-c.noticed:
		}
		c.mu.Lock()
		todo := c.notices
		c.notices = nil
		c.mu.Unlock()
		for _, n := range todo {
			if n.name == "" {
				c.cfg.Kernel.InvalidateInode(n.ino)
			} else {
				c.cfg.Kernel.InvalidateEntry(n.ino, n.name)
			}
			n.ino.unpin()
		}
	}
}
