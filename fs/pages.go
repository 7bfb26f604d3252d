package fs

import "github.com/rdmafs/rdmafs/cache"

// maxInvalidating bounds the direct writes whose reply waits until the kernel has
// dropped pages. The kernel in turn waits for its outstanding reads of these pages,
// and sends none while maxBackground requests, asynchronous direct writes among
// them, are outstanding.
const maxInvalidating = maxBackground / 2

// invalidateWritten makes the kernel drop the pages of a direct write that has
// reached the server. The kernel drops them before each direct write, but after it
// only if the write was synchronous: a page that was read meanwhile would keep the
// old bytes. The caller replies to the write when this returns; if maxInvalidating
// of them wait already, the pages are dropped right after the reply.
func (f *FS) invalidateWritten(i *cache.Inode, off int64, n int) {
	select {
	case f.invalidating <- struct{}{}:
		f.kernel.invalidatePages(i, off, n)
		<-f.invalidating
	default:
		f.invalidations.Go(func() { f.runInvalidate(i, off, n) })
	}
}

// runInvalidate drops pages after the reply; Wait joins it.
func (f *FS) runInvalidate(i *cache.Inode, off int64, n int) { f.kernel.invalidatePages(i, off, n) }

// invalidatePages makes the kernel drop its pages of [off, off+n) of i. It waits
// for outstanding reads and writes of these pages.
func (k *Kernel) invalidatePages(i *cache.Inode, off int64, n int) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.fs == nil {
		return
	}
	if id, ok := k.fs.nodes.number(i); ok {
		k.fs.server.InodeNotify(id, off, int64(n))
	}
}
