package vfs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Node is a file in use. It is referred to by those that got it from Get or
// Lookup and the like, until they Put it.
type Node struct {
	handle string
	fd     int    // O_PATH
	kind   uint16 // S_IFMT part of the mode

	// mu serialises changes of the file, for a directory of its names.
	mu   sync.Mutex
	pend *pending // guarded by mu; holds a reference to the node

	// syncMu makes a failed fsync known before the next one begins.
	syncMu sync.Mutex

	// ioMu is held to open a descriptor for I/O. They are closed only when the
	// node has no references.
	ioMu       sync.Mutex
	rdFD, wrFD atomic.Int32
	wrReads    atomic.Bool  // wrFD can read too
	streams    []*dirStream // idle; guarded by ioMu
	used       atomic.Uint32

	access  atomic.Pointer[verdict]
	changes atomic.Uint32

	// The rest is guarded by the shard's mutex.
	refs       int
	dead       bool // no longer in the table
	prev, next *Node
}

func newNode(handle string, fd int, st *Stat) *Node {
	n := &Node{handle: handle, fd: fd, kind: st.Mode & unix.S_IFMT, refs: 1}
	n.rdFD.Store(-1)
	n.wrFD.Store(-1)
	return n
}

// Handle is the file's handle.
func (n *Node) Handle() string { return n.handle }

// IsDir and IsRegular report the file's type.
func (n *Node) IsDir() bool     { return n.kind == unix.S_IFDIR }
func (n *Node) IsRegular() bool { return n.kind == unix.S_IFREG }
func (n *Node) IsSymlink() bool { return n.kind == unix.S_IFLNK }

// rd is the descriptor for reading, -1 when there is none.
func (n *Node) rd() int { return int(n.rdFD.Load()) }

// close releases everything; n has no references and is in no table.
func (n *Node) close() {
	n.closeIO()
	closeFD(n.fd)
	n.fd = -1
}

// closeIO closes the descriptors for I/O; n has no references.
func (n *Node) closeIO() {
	closeFD(int(n.rdFD.Swap(-1)))
	closeFD(int(n.wrFD.Swap(-1)))
	n.wrReads.Store(false)
	for _, s := range n.streams {
		s.close()
	}
	n.streams = nil
}

// reader is a descriptor to read from. Where there is one for writing that can
// read, it is that: on an overlay one opened before the first write would go on
// reading the lower file.
func (t *Tree) reader(n *Node) (int, error) {
	n.touch(t)
	if n.wrReads.Load() {
		if fd := int(n.wrFD.Load()); fd >= 0 {
			return fd, nil
		}
	}
	if fd := n.rd(); fd >= 0 {
		return fd, nil
	}
	if !n.IsDir() && !n.IsRegular() {
		return -1, unix.EINVAL
	}
	n.ioMu.Lock()
	defer n.ioMu.Unlock()
	if fd := n.rd(); fd >= 0 {
		return fd, nil
	}
	fd, err := t.reopenAsOwner(n, unix.O_RDONLY, 0o400)
	if err == nil {
		n.rdFD.Store(int32(fd))
	}
	return fd, err
}

// writer is a descriptor to write to.
func (t *Tree) writer(n *Node) (int, error) {
	n.touch(t)
	if fd := int(n.wrFD.Load()); fd >= 0 {
		return fd, nil
	}
	if !n.IsRegular() {
		return -1, unix.EINVAL
	}
	n.ioMu.Lock()
	defer n.ioMu.Unlock()
	if fd := int(n.wrFD.Load()); fd >= 0 {
		return fd, nil
	}
	fd, err := reopen(n.fd, unix.O_RDWR)
	if err == nil {
		n.wrReads.Store(true)
	} else if fd, err = t.reopenAsOwner(n, unix.O_WRONLY, 0o200); err != nil {
		return -1, err
	}
	n.wrFD.Store(int32(fd))
	return fd, nil
}

// reopenAsOwner opens n's file, whatever its mode when the server's user owns
// it: a client has opened the file before its mode was taken away, or has
// created it read-only, and goes on using it. Root needs no such help.
func (t *Tree) reopenAsOwner(n *Node, flags int, need uint32) (int, error) {
	fd, err := reopen(n.fd, flags)
	if err != unix.EACCES || t.euid == 0 {
		return fd, err
	}
	var st Stat
	if statFD(n.fd, &st) != nil || st.Uid != t.euid || uint32(st.Mode)&need != 0 {
		return -1, unix.EACCES
	}
	mode := uint32(st.Mode) & 0o7777
	if chmodFD(n.fd, mode|need) != nil {
		return -1, unix.EACCES
	}
	fd, err = reopen(n.fd, flags)
	if back := chmodFD(n.fd, mode); back != nil && err == nil {
		closeFD(fd)
		return -1, back
	}
	return fd, err
}

// touch keeps the janitor away for a while.
func (n *Node) touch(t *Tree) {
	if now := t.nodes.epoch.Load(); n.used.Load() != now {
		n.used.Store(now)
	}
}
