package fs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
)

// nodes maps the node numbers by which the kernel names inodes. A number is the
// index of a slot, with the slot's generation in the upper half, so that it stands
// for one inode in the life of a mount. Inode.Tag is the number of an inode that has
// a slot; aliases are further ones (special.go).
type nodes struct {
	cache *cache.Cache

	mu     sync.RWMutex
	chunks []*[chunkSlots]slot
	used   int      // slots used at least once
	free   []uint32 // of those, the ones without an inode
	// forgotten are those that are kept without one.
	forgotten forgotten

	// How many the kernel may know, see setLimit; 0: any number.
	limit     int
	threshold int           // above it the kernel is asked to forget some
	hand      int           // of the clock algorithm: the slot visited last
	over      chan struct{} // capacity 1: the count is above threshold
}

// chunkSlots is how many slots are allocated at once.
const chunkSlots = 512

type slot struct {
	inode *cache.Inode
	// lookups is the kernel's count, and the references we hold.
	lookups    atomic.Int64
	generation uint32 // how often the slot was used before
	// recent: a request has named it since the hand passed.
	recent atomic.Bool
}

func newNodes(c *cache.Cache) *nodes {
	t := &nodes{cache: c, chunks: []*[chunkSlots]slot{new([chunkSlots]slot)}}
	t.used = fuse.FUSE_ROOT_ID + 1 // the slot below stays empty
	t.hand = fuse.FUSE_ROOT_ID
	root := t.at(fuse.FUSE_ROOT_ID)
	root.inode = c.Root()
	root.inode.Tag = fuse.FUSE_ROOT_ID
	root.lookups.Store(1)
	return t
}

func (t *nodes) at(place uint32) *slot { return &t.chunks[place/chunkSlots][place%chunkSlots] }

// find is the slot of a number, or nil; mu is held.
func (t *nodes) find(id uint64) *slot {
	place := uint32(id)
	if int64(place) >= int64(t.used) {
		return nil
	}
	s := t.at(place)
	if s.inode == nil || s.generation != uint32(id>>32) {
		return nil
	}
	return s
}

// get is the inode of a number that the kernel holds.
func (t *nodes) get(id uint64) (*cache.Inode, fuse.Status) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.find(id)
	if s == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	if !s.recent.Load() {
		s.recent.Store(true)
	}
	return s.inode, fuse.OK
}

// take gives the kernel one lookup of i, and takes over the caller's reference for
// it. It returns the number.
func (t *nodes) take(i *cache.Inode) uint64 {
	t.mu.RLock()
	if id := i.Tag; id != 0 {
		t.find(id).lookups.Add(1)
		t.mu.RUnlock()
		return id
	}
	t.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if i.Tag == 0 {
		i.Tag = t.add(i)
	}
	t.find(i.Tag).lookups.Add(1)
	return i.Tag
}

// alias gives the kernel one lookup of i by a number of its own, which nobody else is
// given, and takes over the caller's reference for it.
func (t *nodes) alias(i *cache.Inode) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.place(i, t.unused())
	t.find(id).lookups.Store(1)
	return id
}

// add gives i a slot, that which its file had if it is kept; mu is held.
func (t *nodes) add(i *cache.Inode) uint64 {
	place, same := t.forgotten.take(i.Handle(), i.Type())
	if place != 0 && !same {
		t.freeSlot(place)
	}
	if !same {
		place = t.unused()
	}
	return t.place(i, place)
}

// unused is a slot without an inode; mu is held.
func (t *nodes) unused() (place uint32) {
	if n := len(t.free); n > 0 {
		place, t.free = t.free[n-1], t.free[:n-1]
		return place
	}
	if t.used == len(t.chunks)*chunkSlots {
		t.chunks = append(t.chunks, new([chunkSlots]slot))
	}
	t.used++
	return uint32(t.used - 1)
}

// place puts i into a slot, and returns its number; mu is held.
func (t *nodes) place(i *cache.Inode, place uint32) uint64 {
	s := t.at(place)
	s.inode = i
	s.recent.Store(true)
	t.added()
	return uint64(s.generation)<<32 | uint64(place)
}

// forget drops k of the kernel's lookups and as many references.
func (t *nodes) forget(id, k uint64) {
	t.mu.Lock()
	s := t.find(id)
	if s == nil || id == fuse.FUSE_ROOT_ID {
		t.mu.Unlock()
		return
	}
	i := s.inode
	if left := s.lookups.Add(-int64(k)); left <= 0 {
		s.inode = nil
		s.lookups.Store(0)
		if i.Tag == id { // not an alias
			i.Tag = 0
			t.forgotten.keep(forgottenNode{uint32(id), i.Type(), i.Handle()}, t.freeSlot)
		} else {
			t.freeSlot(uint32(id))
		}
		t.removed()
	}
	t.mu.Unlock()
	t.cache.Forget(i, k)
}

// freeSlot makes a slot without an inode available under another number; mu is held.
func (t *nodes) freeSlot(place uint32) {
	t.at(place).generation++
	t.free = append(t.free, place)
}

// number is the node number of i, if the kernel knows it.
func (t *nodes) number(i *cache.Inode) (uint64, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return i.Tag, i.Tag != 0
}

// count is how many inodes the kernel knows.
func (t *nodes) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.held()
}

func (t *nodes) held() int { return t.used - fuse.FUSE_ROOT_ID - len(t.free) - len(t.forgotten.byNode) }

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
