package vfs

import (
	"bytes"
	"iter"

	"golang.org/x/sys/unix"
)

// Get refers to the file of a handle. The caller gives it back with Put.
func (t *Tree) Get(h string) (*Node, error) {
	if n := t.nodes.get(h); n != nil {
		return n, nil
	}
	kind, body, err := t.unseal(h)
	if err != nil {
		return nil, err
	}
	fd, err := t.openBody(kind, body)
	if err != nil {
		return nil, err
	}
	var st Stat
	if err := statFD(fd, &st); err != nil {
		closeFD(fd)
		return nil, err
	}
	if st.Nlink == 0 {
		closeFD(fd)
		return nil, unix.ESTALE
	}
	return t.nodes.add(newNode(h, fd, &st)), nil
}

// adopt makes a node of an O_PATH descriptor, which it takes, and fills st. The
// caller refers to the node.
func (t *Tree) adopt(fd int, st *Stat) (*Node, error) {
	if err := statFD(fd, st); err != nil {
		closeFD(fd)
		return nil, err
	}
	if !t.sameMount(st) {
		closeFD(fd)
		return nil, unix.EACCES
	}
	h, err := t.handleOf(fd, st)
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return t.nodes.add(newNode(h, fd, st)), nil
}

// sameMount reports whether a file lies in the mount that is exported.
func (t *Tree) sameMount(st *Stat) bool {
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return uint64(st.Dev_major)<<32|uint64(st.Dev_minor) == t.rootID.dev
	}
	return st.Mnt_id == t.mount
}

// Stat fills st with n's attributes; a file that has no name any more is
// ESTALE.
func (t *Tree) Stat(n *Node, st *Stat) error {
	if t.cfg.Lossy && n.IsRegular() {
		n.mu.Lock()
		defer n.mu.Unlock()
	}
	return t.stat(n, st)
}

// stat is Stat with n.mu held if the tree is lossy.
func (t *Tree) stat(n *Node, st *Stat) error {
	if err := statFD(n.fd, st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		t.discard(n)
		t.nodes.drop(n)
		return unix.ESTALE
	}
	st.Changes = n.changes.Load()
	if n.pend != nil {
		n.pend.amend(st)
	}
	return nil
}

func splitLines(b []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range bytes.Lines(b) {
			if !yield(string(line)) {
				return
			}
		}
	}
}
