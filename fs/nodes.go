package fs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
)

// nodes maps the numbers by which the kernel names inodes.
type nodes struct {
	cache *cache.Cache

	mu    sync.RWMutex
	byID  map[uint64]*node
	byIno map[*cache.Inode]*node
	next  uint64
}

type node struct {
	id    uint64
	inode *cache.Inode
	// lookups is the kernel's count, and the references we hold.
	lookups atomic.Int64
}

func newNodes(c *cache.Cache) *nodes {
	root := &node{id: fuse.FUSE_ROOT_ID, inode: c.Root()}
	root.lookups.Store(1)
	return &nodes{
		cache: c,
		byID:  map[uint64]*node{root.id: root},
		byIno: map[*cache.Inode]*node{root.inode: root},
		next:  fuse.FUSE_ROOT_ID + 1,
	}
}

// get is the inode of a number that the kernel holds.
func (t *nodes) get(id uint64) (*cache.Inode, fuse.Status) {
	t.mu.RLock()
	n := t.byID[id]
	t.mu.RUnlock()
	if n == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	return n.inode, fuse.OK
}

// take gives the kernel one lookup of i, for which it takes over one
// reference, and returns the number.
func (t *nodes) take(i *cache.Inode) uint64 {
	t.mu.RLock()
	if n := t.byIno[i]; n != nil {
		n.lookups.Add(1)
		t.mu.RUnlock()
		return n.id
	}
	t.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byIno[i]
	if n == nil {
		n = &node{id: t.next, inode: i}
		t.next++
		t.byID[n.id], t.byIno[i] = n, n
	}
	n.lookups.Add(1)
	return n.id
}

// forget drops k of the kernel's lookups and as many references.
func (t *nodes) forget(id, k uint64) {
	t.mu.Lock()
	n := t.byID[id]
	if n == nil {
		t.mu.Unlock()
		return
	}
	if left := n.lookups.Add(-int64(k)); left <= 0 && id != fuse.FUSE_ROOT_ID {
		delete(t.byID, id)
		delete(t.byIno, n.inode)
	}
	t.mu.Unlock()
	if id != fuse.FUSE_ROOT_ID {
		t.cache.Forget(n.inode, k)
	}
}

// number is the number of i if the kernel knows it.
func (t *nodes) number(i *cache.Inode) (uint64, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.byIno[i]
	if n == nil {
		return 0, false
	}
	return n.id, true
}

// handles maps the numbers of open files and directories.
type handles[T any] struct {
	mu   sync.RWMutex
	open map[uint64]T
	next uint64
}

func (t *handles[T]) add(v T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = make(map[uint64]T)
	}
	t.next++
	t.open[t.next] = v
	return t.next
}

func (t *handles[T]) get(fh uint64) (T, fuse.Status) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.open[fh]
	if !ok {
		return v, fuse.EBADF
	}
	return v, fuse.OK
}

func (t *handles[T]) remove(fh uint64) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.open[fh]
	delete(t.open, fh)
	return v, ok
}
