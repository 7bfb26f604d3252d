package fs

import "sync"

// reopens makes the kernel fetch fresh attributes before it opens a file that
// another client has changed. The reply to OPEN carries no attributes, and a kernel
// that needs none keeps the old size, and would append over what the other client
// has written. ESTALE makes it look the name up again, with attributes, and repeat
// the open (path_openat, for any ESTALE). An open without a name, such as that of
// /proc/self/fd/N, is repeated without a lookup, and succeeds the second time.
//
// Threads outside our pid namespace all have number 0, so that a repeated open
// cannot be told from a first one. The first open of a file by any of them is
// refused, and no other until the kernel is seen to know the size: no open is
// refused twice, but one that comes in between keeps the old size.
type reopens struct {
	mu     sync.Mutex
	node   map[uint32]uint64   // the node that a thread has to open again
	unseen map[uint64]struct{} // those that threads outside have to
}

// maxReopens bounds each map: a thread that was killed never opens again.
const maxReopens = 4096

// refuse reports whether the open of a node by a thread must fail with ESTALE.
func (r *reopens) refuse(pid uint32, node uint64, sized bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pid == 0 {
		return r.refuseUnseen(node, sized)
	}
	second := r.node[pid] == node
	delete(r.node, pid)
	if sized || second {
		return false
	}
	if r.node == nil || len(r.node) >= maxReopens {
		r.node = make(map[uint32]uint64)
	}
	r.node[pid] = node
	return true
}

// refuseUnseen is refuse for threads outside. While the map is full no open is
// refused: to forget a node could refuse one open twice. mu is held.
func (r *reopens) refuseUnseen(node uint64, sized bool) bool {
	if sized {
		delete(r.unseen, node)
		return false
	}
	if _, again := r.unseen[node]; again || len(r.unseen) >= maxReopens {
		return false
	}
	if r.unseen == nil {
		r.unseen = make(map[uint64]struct{})
	}
	r.unseen[node] = struct{}{}
	return true
}
