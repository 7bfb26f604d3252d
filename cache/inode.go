package cache

import (
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

	// refs counts who needs the inode to be the one for its handle: kernel
	// lookups, open files, names, data that is not stable yet, notices. Only Cache.intern
	// raises it from zero.
	refs atomic.Int64

	// Tag is for the cache's user, who guards it; the cache looks at it never.
	Tag uint64

	mu inodeLock
	// wake is closed and replaced when a waiter of wb should look again; nil
	// while nobody waits.
	wake chan struct{}

	node coherence.Node
	// pages is what the kernel has; neverDoubted until the first doubt.
	pages *coherence.Pages

	rights coherence.Rights
	opens  int
	silly  *silly
	// removed: we have removed the last name, and nobody has it open.
	removed bool

	// Beside it, to take no more room.
	typ nfsclient.FileType

	names    map[string]*dentry // directories
	*written                    // regular files
	*reading                    // likewise
}

// Ino is the inode number: the server's file id, or one made from it where
// two files of different file systems would share it. It stays the same while
// the inode is known.
func (i *Inode) Ino() uint64 { return i.ino }

// Handle is the server's name for the file.
func (i *Inode) Handle() nfsclient.Handle { return i.h }

// Type is the kind of the file.
func (i *Inode) Type() nfsclient.FileType { return i.typ }

// intern is the inode of h, with a reference for the caller. a need not be
// current. A file does not change its type: where the server says that h is
// of another one now, or said something wrong before, h stands for another
// file, and the inode that was there lives on for those who hold it.
func (c *Cache) intern(h nfsclient.Handle, a *nfsclient.Attr) *Inode {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.inodes[h]; i != nil && (i.typ == a.Type || i == c.root) {
		i.refs.Add(1)
		return i
	}
	i := &Inode{c: c, h: h, typ: a.Type, ino: c.number(h, a), written: &neverWritten, pages: &neverDoubted, reading: &notReading}
	i.refs.Store(1)
	c.inodes[h] = i
	c.inos[i.ino] = i
	return i
}

// Forget gives back n references that results carried.
func (c *Cache) Forget(i *Inode, n uint64) { i.drop(int64(n)) }

func (i *Inode) unpin() { i.drop(1) }

// drop gives back references. i.mu is not held if i is a directory.
func (i *Inode) drop(n int64) {
	left := i.refs.Add(-n)
	if left < 0 {
		panic("cache: reference given back twice")
	}
	if left > 0 {
		return
	}
	c := i.c
	c.mu.Lock()
	gone := i.refs.Load() == 0 && c.inos[i.ino] == i
	if gone {
		if c.inodes[i.h] == i {
			delete(c.inodes, i.h)
		}
		delete(c.inos, i.ino)
		delete(c.places, i)
	}
	c.mu.Unlock()
	if gone && i.typ == nfsclient.Directory {
		i.mu.Lock()
		i.forgetNames(false)
		i.mu.Unlock()
	}
}

// awaken lets all waiters look again; mu is held.
func (i *Inode) awaken() {
	if i.wake != nil {
		close(i.wake)
		i.wake = nil
	}
}

// sleeper is what a waiter waits for after it has released mu.
func (i *Inode) sleeper() <-chan struct{} {
	if i.wake == nil {
		i.wake = make(chan struct{})
	}
	return i.wake
}
