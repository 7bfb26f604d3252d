package cache

import (
	"hash/maphash"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// number chooses the inode number of h: the file id, and where another inode
// has that already, one made from the handle, so that a server that gives many
// files one id costs no search. c.mu is held.
func (c *Cache) number(h nfsclient.Handle, a *nfsclient.Attr) uint64 {
	n := a.FileID
	if a.FSID != c.fsid {
		n ^= mix(a.FSID)
	}
	return chooseNumber(n, func() uint64 { return maphash.String(c.seed, string(h)) }, c.taken)
}

// chooseNumber is first if that can be had, else a number that begins at other
// and is free. Zero and all ones mean something else to FUSE.
func chooseNumber(first uint64, other func() uint64, taken func(uint64) bool) uint64 {
	usable := func(n uint64) bool { return n != 0 && n != ^uint64(0) && !taken(n) }
	if usable(first) {
		return first
	}
	n := other()
	for !usable(n) {
		n = mix(n + 1)
	}
	return n
}

// mix spreads x over all bits, one to one (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
