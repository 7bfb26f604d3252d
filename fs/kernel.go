package fs

import (
	"sync"

	"github.com/rdmafs/rdmafs/cache"
)

// Kernel sends the cache's notifications to the kernel of one mount. It is made
// before the cache and given to Mount; before the mount and after it, it does
// nothing.
//
// The cache calls it from goroutines of its own and without locks: the kernel may
// hold, for the very request that noticed a change, a lock that the invalidation
// waits for.
type Kernel struct {
	// mu is held, shared, by each notification, so that the mount is not closed
	// meanwhile.
	mu sync.RWMutex
	fs *FS
}

// NewKernel makes the cache.Kernel of a mount to come.
func NewKernel() *Kernel { return &Kernel{} }

func (k *Kernel) attach(f *FS) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fs = f
}

// InvalidateInode makes the kernel drop data and attributes of i, if it has any.
func (k *Kernel) InvalidateInode(i *cache.Inode) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.fs == nil {
		return
	}
	if id, ok := k.fs.nodes.number(i); ok {
		k.fs.server.InodeNotify(id, 0, 0)
	}
}

// InvalidateEntry makes the kernel revalidate a name before it uses it again. A
// kernel without FUSE_EXPIRE_ONLY is given no name to keep (see entryTTL).
func (k *Kernel) InvalidateEntry(dir *cache.Inode, name string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.fs == nil || !k.fs.expires {
		return
	}
	if id, ok := k.fs.nodes.number(dir); ok {
		// ENOENT: the kernel does not have the name.
		_, _ = k.fs.device.Write(appendExpireEntry(nil, id, name))
	}
}
