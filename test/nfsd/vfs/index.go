package vfs

import (
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Bounds of the index and of its walks.
const (
	maxIndex = 1 << 20
	maxDepth = 1024
)

// place is where an inode was last seen. gen is not part of the key: whoever
// opens the place checks whom he found there.
type place struct {
	parent fileNo
	name   string
}

type fileNo struct{ dev, ino uint64 }

func (k inode) no() fileNo { return fileNo{k.dev, k.ino} }

// index finds the paths of inodes. It may be wrong or incomplete at any time:
// the tree is the truth.
type index struct {
	mu sync.RWMutex
	m  map[fileNo]place
}

func (x *index) init() { x.m = map[fileNo]place{} }

// note records that name in parent is k.
func (x *index) note(parent, k fileNo, name string) {
	x.mu.RLock()
	p, ok := x.m[k]
	x.mu.RUnlock()
	if ok && p.parent == parent && p.name == name {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !ok && len(x.m) >= maxIndex {
		// Any entry will do; a walk finds it again.
		for old := range x.m {
			delete(x.m, old)
			break
		}
	}
	x.m[k] = place{parent, name}
}

// forget drops k's place if it is name in parent.
func (x *index) forget(parent, k fileNo, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p, ok := x.m[k]; ok && p.parent == parent && p.name == name {
		delete(x.m, k)
	}
}

// path is where k was last seen, relative to root.
func (x *index) path(root, k fileNo) (string, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var names []string
	for ; k != root; k = x.m[k].parent {
		p, ok := x.m[k]
		if !ok || len(names) == maxDepth {
			return "", false
		}
		names = append(names, p.name)
	}
	if len(names) == 0 {
		return ".", true
	}
	var b strings.Builder
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteString(names[i])
		if i > 0 {
			b.WriteByte('/')
		}
	}
	return b.String(), true
}

// noteChild records a name seen in a directory.
func (t *Tree) noteChild(dir *Node, name string, st *Stat) {
	if t.kernel {
		return
	}
	if parent, ok := t.inodeOfHandle(dir.handle); ok {
		t.index.note(parent.no(), t.inodeOf(st).no(), name)
	}
}

// forgetChild records that a name is gone; h is the handle of what it named.
func (t *Tree) forgetChild(dir *Node, name, h string) {
	if t.kernel {
		return
	}
	parent, ok := t.inodeOfHandle(dir.handle)
	k, found := t.inodeOfHandle(h)
	if ok && found {
		t.index.forget(parent.no(), k.no(), name)
	}
}

// moveChild records a rename of the file of handle h.
func (t *Tree) moveChild(to *Node, name, h string) {
	if t.kernel {
		return
	}
	parent, ok := t.inodeOfHandle(to.handle)
	if k, found := t.inodeOfHandle(h); ok && found {
		t.index.note(parent.no(), k.no(), name)
	}
}

// openBeneath opens a path under the root, that of a file k, as a path.
func (t *Tree) openBeneath(path string, k inode) (int, error) {
	fd, err := unix.Openat2(t.root.fd, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS |
			unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return -1, err
	}
	var st Stat
	if err := statFD(fd, &st); err != nil {
		closeFD(fd)
		return -1, err
	}
	if t.inodeOf(&st) != k {
		closeFD(fd)
		return -1, unix.ESTALE
	}
	return fd, nil
}
