package cache

import "context"

// doubt says that pages and attributes that the kernel has of i are not what the
// server has; mu is held. They are invalidated in the background at the latest.
func (i *Inode) doubt() {
	i.ownPages()
	i.pages.Doubt()
	i.notifyLater()
}

// clear returns when the kernel has dropped what it had of i at every doubt until
// now, or ctx ends. It is called before each reply that shows the file's new state: a
// kernel that learned the new size first would read zeros behind the end of its last
// page. It waits for outstanding reads and writes of pages, which therefore must not
// call it. No lock is held.
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

// runClear makes the kernel drop what it has of i. It does not run on runNotices,
// which may be waiting for a directory that the kernel has locked for the caller of
// clear.
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

// Mark is the present moment, for Told.
func (c *Cache) Mark() uint64 { return c.gen.Load() }

// Told says that the kernel is given i's attributes in reply to a request that it
// sent at mark or later.
func (i *Inode) Told(mark uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pages.Told(mark)
}

// Sized reports whether the kernel knows the size of the file. A kernel that has
// dropped attributes keeps the old size until it is given another: it cuts mappings,
// splices and replies to earlier requests there, and appends there.
func (i *Inode) Sized() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pages.Sized()
}

// notice is something that the kernel must invalidate: a name in a directory, or an
// inode if name is empty. The inode is pinned until then.
type notice struct {
	ino  *Inode
	name string
}

// notify queues a notice. It may be called with any lock held but Cache.mu.
func (c *Cache) notify(n notice) {
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

// runNotices sends notices to the kernel, on a goroutine of its own: the kernel
// invalidates pages only when its reads of them have replies, and a change may be
// noticed in the very reply to such a read.
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
