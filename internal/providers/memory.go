package providers

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/privilege"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
)

// Memory is what a mount has for I/O in flight. A zero field is the default of
// the package that it is for.
type Memory struct {
	Pool    int  // bytes of the cache's buffers
	Pinned  bool // they are locked in place by a device
	long    int  // bytes for long messages
	credits int  // calls in flight on a link
	inline  int  // inline threshold, in bytes; 0: what the options say
	// Note says what the limit on locked memory costs; "" if nothing.
	Note string
}

// PoolBytes are the cache's buffers where nothing limits memory. The kernel's page
// cache is the long-term one; these are for data in flight.
const PoolBytes = 128 << 20

// unlimited is what a mount takes where nothing limits it.
var unlimited = Memory{Pool: PoolBytes}

const (
	mib = 1 << 20
	// leastPool is four of the largest buffers, below which bufpool does not go.
	leastPool = 4 * mib
	// fewCredits are asked for where memory is short, and there is room for one
	// long message of the greatest size.
	fewCredits = 32
	// smallInline is the inline threshold then, unless the user chose another: that of
	// a Linux server. 4 KiB of data do not fit.
	smallInline = 4096
	// adapterBytes are what an adapter may lock for the queues of a link.
	adapterBytes = 256 << 10
	// callbackCredits is how many calls a server of NFSv4 may make at once on a connection.
	callbackCredits = 4
)

// planMemory divides what may be locked, RLIM_INFINITY for all, between the
// buffers of a mount with these options.
func PlanMemory(limit uint64, o *options.Options) (Memory, error) {
	taken := func(credits, inline, long int) uint64 {
		// A link may still hold its memory while the next is made.
		links := o.NConnect + 1
		link := rpcrdma.LinkBytes(credits, inline) + adapterBytes
		if o.Minors() != nil {
			link += rpcrdma.CallbackBytes(callbackCredits, inline, o.RDMAVers != "1")
		}
		return uint64(links*link + long)
	}
	if limit >= taken(rpcrdma.DefaultCredits, o.Inline, rpcrdma.DefaultLongBytes)+PoolBytes {
		return unlimited, nil
	}
	m := Memory{long: rpcrdma.LongMessageBytes, credits: fewCredits}
	inline := o.Inline
	if inline == options.Default().Inline {
		m.inline, inline = smallInline, smallInline
	}
	const remedy = "ulimit -l shows it; raise it with memlock in /etc/security/limits.conf, or LimitMEMLOCK= in a systemd unit"
	need := taken(m.credits, inline, m.long)
	if limit < need+leastPool {
		return Memory{}, fmt.Errorf("RDMA adapters need locked memory: this mount at least %d KiB, and the limit is %d KiB (%s)",
			(need+leastPool)>>10, limit>>10, remedy)
	}
	m.Pool = int(min(limit-need, PoolBytes)) / mib * mib
	m.Note = fmt.Sprintf("the limit on locked memory is %d MiB: %d MiB of buffers in place of %d, which costs speed (%s)",
		limit/mib, m.Pool/mib, PoolBytes/mib, remedy)
	return m, nil
}

// LockLimit is how many bytes this process may lock.
func LockLimit() uint64 {
	var l unix.Rlimit
	if privilege.MayLockMemory() || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil {
		return unix.RLIM_INFINITY
	}
	return l.Cur
}
