package torture

import (
	"slices"
	"syscall"
)

// fault is something that happens to a mount in use.
type fault struct {
	// what it is, in a line.
	what string
	// run injects it, and heals it. When it returns, every worker must make
	// progress.
	run func(*run) error
	// skip is why it does not apply to a transport and kind, "" if it does.
	skip func(transport, kind string) string
	// errors are what callers may get.
	errors []syscall.Errno
	// forgets: the server may have forgotten a call when it is sent again, which
	// NFSv3 cannot detect.
	forgets bool
	// net: the network is made bad by a relay.
	net bool
	// proxy: records of TCP are tampered with.
	proxy bool
	// version4: it is one of version 4's alone.
	version4 bool
	// lossy: unstable data is lost with the server.
	lossy bool
	// ends: the mount does not outlive it; mayDie: the daemon need not.
	ends, mayDie bool
	// fork: children of workers inherit their files. shared: all use one file,
	// from as many mounts.
	fork, shared bool
	mounts       int
	timeo        int
	// files are how many each worker uses at a time, 2 if 0.
	files int
}

func (f *fault) allowed(c *run) []syscall.Errno {
	all := slices.Clone(f.errors)
	if f.forgets && c.Kind == "names" {
		all = append(all, syscall.ENOENT, syscall.EEXIST)
	}
	if f.shared && c.Vers != "3" {
		// A server of version 4 that restarts without a grace period loses locks. Their holders' I/O
		// fails, also through a mapping.
		all = append(all, syscall.EIO, syscall.EFAULT)
	}
	return all
}

// faults by name.
var faults = map[string]*fault{}

// order is the names in the order of the table.
var order []string

func add(name string, f *fault) {
	faults[name] = f
	order = append(order, name)
}
