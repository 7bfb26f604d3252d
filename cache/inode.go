package cache

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/cache/coherence"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// Inode is a file handle that the kernel or the cache knows. There is one per
// handle and type.
type Inode struct {
	c   *Cache
	h   nfsclient.Handle
	ino uint64

	// refs counts what needs the inode to be the one for its handle: kernel
	// lookups, open files, names, data that is not committed, notices, calls. Only
	// Cache.intern raises it from zero.
	refs atomic.Int64

	// Tag is for the cache's user, who guards it; the cache does not use it.
	Tag uint64

	mu   inodeLock
	node coherence.Node

	rights coherence.Rights
	*used  // neverUsed until it is more than a file with attributes
	// removed: we have removed the last name, and the file is not open.
	removed bool
	// inListing: a listing has given the kernel the attributes of this directory since our
	// last change in it.
	inListing bool
	typ       nfsclient.FileType
	staleTold bool     // the log says that the handle is stale
	acls      aclState // what is known of access control lists; dropRights forgets it
	// sum is the lower bits of the handle's hash, as many as there is room for.
	sum [3]byte

	nextHandle, nextNumber *Inode // of Cache.handles and Cache.numbers, guarded by Cache.mu
}

// Ino is the inode number: the server's file id, or one made from it where
// two files of different file systems would share it. It stays the same while
// the inode is known.
func (i *Inode) Ino() uint64 { return i.ino }

// Handle is the server's name for the file.
func (i *Inode) Handle() nfsclient.Handle { return i.h }

// Type is the kind of the file.
func (i *Inode) Type() nfsclient.FileType { return i.typ }

// Group is the group that owns the file, as last known.
func (i *Inode) Group() uint32 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.node.GID
}

// intern returns the inode of h, with a reference for the caller. a need not be
// current. A file does not change its type: if the server says that h is of another
// type now, h is another file, and the old inode remains for those who refer to it.
func (c *Cache) intern(h nfsclient.Handle, a *nfsclient.Attr) *Inode {
	sum := c.sum(string(h))
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.inodeOf(h, sum); i != nil {
		if i.typ == a.Type || i == c.root {
			i.refs.Add(1)
			return i
		}
		c.handles.remove(i)
	}
	i := &Inode{c: c, h: h, typ: a.Type, ino: c.number(h, a), used: &neverUsed, sum: [3]byte{byte(sum), byte(sum >> 8), byte(sum >> 16)}}
	i.refs.Store(1)
	c.handles.insert(i)
	c.numbers.insert(i)
	return i
}

// byHandle and byNumber are how inodes are found.
type (
	byHandle struct{}
	byNumber struct{}
)

func (byHandle) hash(i *Inode) uint64 {
	return uint64(i.sum[0]) | uint64(i.sum[1])<<8 | uint64(i.sum[2])<<16
}

func (byHandle) next(i *Inode) **Inode { return &i.nextHandle }

func (byNumber) hash(i *Inode) uint64 { return mix(i.ino) }

func (byNumber) next(i *Inode) **Inode { return &i.nextNumber }

// sum is a hash that nobody outside can foresee.
func (c *Cache) sum(s string) uint32 { return uint32(maphash.String(c.seed, s)) }

// inode is the inode of h, or nil; Cache.mu is held.
func (c *Cache) inode(h nfsclient.Handle) *Inode { return c.inodeOf(h, c.sum(string(h))) }

// inodeOf is inode of a handle with the hash sum; Cache.mu is held.
func (c *Cache) inodeOf(h nfsclient.Handle, sum uint32) *Inode {
	i := c.handles.first(uint64(sum & (1<<24 - 1)))
	for i != nil && i.h != h {
		i = i.nextHandle
	}
	return i
}

// taken reports whether an inode has the number n; Cache.mu is held.
func (c *Cache) taken(n uint64) bool {
	i := c.numbers.first(mix(n))
	for i != nil && i.ino != n {
		i = i.nextNumber
	}
	return i != nil
}

// Forget drops n references that results carried.
func (c *Cache) Forget(i *Inode, n uint64) { i.drop(int64(n)) }

func (i *Inode) unpin() { i.drop(1) }

// drop drops references. i.mu is not held if i is a directory.
func (i *Inode) drop(n int64) {
	left := i.refs.Add(-n)
	if left < 0 {
		panic("cache: reference dropped twice")
	}
	if left > 0 {
		return
	}
	c := i.c
	c.mu.Lock()
	gone := i.refs.Load() == 0 && c.numbers.has(i)
	if gone {
		c.handles.remove(i)
		c.numbers.remove(i)
		delete(c.places, i)
		c.dropListing(i)
	}
	c.mu.Unlock()
	if gone && i.typ == nfsclient.Directory {
		i.mu.Lock()
		i.forgetNames(false)
		i.mu.Unlock()
	}
}

// wakeAll makes all waiters look again; mu is held.
func (i *Inode) wakeAll() {
	if i.wake != nil {
		close(i.wake)
		i.wake = nil
	}
}

// waitChan is the channel to wait for after mu was unlocked; mu is held.
func (i *Inode) waitChan() <-chan struct{} {
	if i.wake == nil {
		i.own()
		i.wake = make(chan struct{})
	}
	return i.wake
}
