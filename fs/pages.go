package fs

import "github.com/rdmafs/rdmafs/cache"

// maxDropping bounds the direct writes whose answer waits until the kernel has
// dropped pages. The kernel waits in turn for reads of these pages that it has
// begun, and may not send those to us while as many requests as maxBackground,
// asynchronous direct writes among them, are unanswered.
const maxDropping = maxBackground / 2

// written has the kernel drop the pages of a direct write that has reached the
// server. The kernel itself drops them before each direct write, but afterwards
// only if the write was synchronous: a page that was read meanwhile would show the
// old bytes for good. The caller answers the write when written returns; when
// maxDropping of them wait already, the pages are dropped right after the answer.
func (f *FS) written(i *cache.Inode, off int64, n int) {
	select {
	case f.dropping <- struct{}{}:
		f.kernel.invalidatePages(i, off, n)
		<-f.dropping
	default:
		f.drops.Go(func() { f.runDrop(i, off, n) })
	}
}

// runDrop has pages dropped late; Wait joins it.
func (f *FS) runDrop(i *cache.Inode, off int64, n int) { f.kernel.invalidatePages(i, off, n) }

// invalidatePages makes the kernel drop what it has of [off, off+n) of i. It
// waits for reads and writes of these pages that are under way.
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
