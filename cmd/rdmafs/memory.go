package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/transport/rpcrdma"
)

// memory is what a mount has for I/O under way. A zero field is the default of
// the package that it is for.
type memory struct {
	pool    int // bytes of the cache's buffers
	long    int // bytes for long messages
	credits int // calls under way on a link
	note    string
}

// plentyOfMemory is what a mount takes where nothing limits it.
var plentyOfMemory = memory{pool: poolBytes}

const (
	mib = 1 << 20
	// leastPool is four of the largest buffers, below which bufpool does not go.
	leastPool = 4 * mib
	// fewCredits are asked for where memory is short, and there is room for one
	// long message of the greatest size.
	fewCredits = 32
	// adapterBytes are what an adapter may lock for the queues of a link.
	adapterBytes = 256 << 10
)

// planMemory divides what may be locked, RLIM_INFINITY for all, between the
// buffers of a mount with these options.
func planMemory(limit uint64, o *options) (memory, error) {
	taken := func(credits, long int) uint64 {
		// A link may still hold its memory while the next is made.
		links := o.nconnect + 1
		return uint64(links*(rpcrdma.LinkBytes(credits, o.inline)+adapterBytes) + long)
	}
	if limit >= taken(rpcrdma.DefaultCredits, rpcrdma.DefaultLongBytes)+poolBytes {
		return plentyOfMemory, nil
	}
	m := memory{long: rpcrdma.LongMessageBytes, credits: fewCredits}
	const remedy = "ulimit -l shows it; raise it with memlock in /etc/security/limits.conf, or LimitMEMLOCK= in a systemd unit"
	need := taken(m.credits, m.long)
	if limit < need+leastPool {
		return memory{}, fmt.Errorf("RDMA adapters need locked memory: this mount at least %d KiB, and the limit is %d KiB (%s)",
			(need+leastPool)>>10, limit>>10, remedy)
	}
	m.pool = int(min(limit-need, poolBytes)) / mib * mib
	m.note = fmt.Sprintf("the limit on locked memory is %d MiB: %d MiB of buffers in place of %d, which costs speed (%s)",
		limit/mib, m.pool/mib, poolBytes/mib, remedy)
	return m, nil
}

// lockLimit is how many bytes this process may lock.
func lockLimit() uint64 {
	var l unix.Rlimit
	if capable(unix.CAP_IPC_LOCK) || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil {
		return unix.RLIM_INFINITY
	}
	return l.Cur
}
