package fs

import "sync"

// reopens has the kernel learn the size of a file that it is about to open and
// that was changed elsewhere: an answer to OPEN carries no attributes, and where
// the kernel has no need of them it goes on with the size it knew, so that it
// would append over what another machine has written. ESTALE makes it look the
// name up again, with attributes, and open once more (path_openat, for any
// error ESTALE). Who opens without a name comes again without a lookup, and is
// let in the second time.
type reopens struct {
	mu   sync.Mutex
	node map[uint32]uint64 // what a thread was told to open again
}

// maxReopens bounds the threads remembered: those killed never come again.
const maxReopens = 4096

// refuse tells whether the open of a node by a thread is to be tried again.
func (r *reopens) refuse(pid uint32, node uint64, sized bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
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
