package fs

import "sync"

// reopens has the kernel learn the size of a file that it is about to open and
// that was changed elsewhere: an answer to OPEN carries no attributes, and where
// the kernel has no need of them it goes on with the size it knew, so that it
// would append over what another machine has written. ESTALE makes it look the
// name up again, with attributes, and open once more (path_openat, for any
// error ESTALE). Who opens without a name comes again without a lookup, and is
// let in the second time.
//
// Threads outside our pid namespace all have number 0, and who comes again cannot
// be told from who comes for the first time. The first open of a file by any of
// them is refused, and no other until the size was seen to be known: nobody is
// refused twice, but who comes in between goes on with the old size.
type reopens struct {
	mu     sync.Mutex
	node   map[uint32]uint64   // what a thread was told to open again
	unseen map[uint64]struct{} // what a thread outside was
}

// maxReopens bounds the threads, and the files of those outside, that are
// remembered: those killed never come again.
const maxReopens = 4096

// refuse tells whether the open of a node by a thread is to be tried again.
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

// refuseUnseen is refuse for threads outside. When too many files are
// remembered none is refused any more until some are known: to forget one could
// refuse somebody twice. mu is held.
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
