package vfs

// ChangeID is a number that is another after each change of the file: what NFSv4 calls the
// change attribute. The kernel's time of change moves in steps of a clock tick, so the changes
// made here are added to it: within a tick there are fewer than it has nanoseconds, which
// keeps the sum growing. It stays as it is when the tree is opened again, but for the
// count, which leaves with the node: the number is then another without a change, which
// costs a client its cache and no more.
func (st *Stat) ChangeID() uint64 {
	return uint64(st.Ctime.Sec)*1e9 + uint64(st.Ctime.Nsec) + uint64(st.Changes)
}

// Changed gives n another ChangeID, for a change that has not been written yet.
func (n *Node) Changed() { n.changes.Add(1) }

// changed counts a change of the file of a handle if it is in use.
func (t *Tree) changed(h string) {
	if n := t.nodes.get(h); n != nil {
		n.changes.Add(1)
		t.Put(n)
	}
}

// ChangesOf is Stat.Changes of the file of a handle: Child does not look at the nodes in use.
func (t *Tree) ChangesOf(h string) uint32 {
	n := t.nodes.get(h)
	if n == nil {
		return 0
	}
	defer t.Put(n)
	return n.changes.Load()
}
