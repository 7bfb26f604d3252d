package cache

import "context"

// doubt says that pages and attributes the kernel has of i are not what the
// server has; mu is held. The kernel is told in the background at the latest.
func (i *Inode) doubt() {
	i.ownPages()
	i.pages.Doubt()
	i.tellLater()
}

// clear returns when the kernel has dropped what was doubtful of i until now,
// or ctx ends. It comes before each answer that shows the file's new state: a
// kernel that learned the new size first would read zeros behind the end of
// its last page. It waits for reads and writes of pages that are under way, so
// those must not call it. No lock is held.
func (c *Cache) clear(ctx context.Context, i *Inode) {
	i.mu.Lock()
	now := i.pages.Ticket()
	for !i.pages.Covered(now) {
		if i.pages.Schedule() {
			i.refs.Add(1)
			if !c.spawn(i.runClear) {
				i.pages.Cancel()
				i.mu.Unlock()
				i.unpin()
				return
			}
		}
		wake := i.sleeper()
		i.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
		i.mu.Lock()
	}
	i.mu.Unlock()
}

// runClear has the kernel drop what it has of i. It is a goroutine apart from
// runNotices, which may be waiting for a directory that the caller of clear has
// locked.
func (i *Inode) runClear() {
	i.mu.Lock()
	i.pages.Start()
	i.mu.Unlock()
	if k := i.c.cfg.Kernel; k != nil {
		k.InvalidateInode(i)
	}
	i.mu.Lock()
	i.pages.Done(i.c.gen.Add(1))
	i.awaken()
	i.mu.Unlock()
	i.unpin()
}

// Mark is this moment, for Told.
func (c *Cache) Mark() uint64 { return c.gen.Load() }

// Told says that the kernel is being given i's attributes, in answer to a
// question it asked at mark or later.
func (i *Inode) Told(mark uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pages.Told(mark)
}

// Sized says whether the kernel knows how large the file is. To drop a file's
// attributes leaves it the old size: it cuts mappings, splices and the answers
// to questions asked before, and appends there, until it is given another.
func (i *Inode) Sized() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pages.Sized()
}

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
				c.clear(ctx, n.ino)
			} else {
				c.cfg.Kernel.InvalidateEntry(n.ino, n.name)
			}
			n.ino.unpin()
		}
	}
}
