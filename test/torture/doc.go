// Package torture runs real mounts (the rdmafs binary, FUSE) under a set of
// faults and compares the results with a model: data, names, attributes, and
// errors reported. Its command is test/torture/cmd/torture, which make torture
// runs.
//
// It owns the cells. A cell is a fault crossed with a transport (iwarp, roce,
// tcp) and a kind of use (buffered, direct, mmap, append, names), with a version of NFS
// that the seed chooses. Faults of sessions and state are of version 4 alone. Each cell runs as a
// process in mount, network and process namespaces of its own: a server, which
// is this program again, exports a tmpfs; a daemon mounts it over a virtual
// cable; workers, processes too, use the mount and write on a pipe what they are
// about to do and how it ended. The cell awaits their progress, injects the
// fault, heals it, and awaits progress again. Then it unmounts, reads everything
// through a fresh mount, kills the server, and reads the exported directory
// itself.
//
// It asserts no times. A guard, long beyond every timeout of a mount, ends
// what hangs. Of a cell that fails it saves the state of each process, the kernel
// stacks of all threads and the counters, and of one that hangs the goroutines of
// daemons and server, too.
//
// # The model
//
// File contents consist of units of 16 bytes, each of which shows the file, its
// place, and the number of the write that it comes from. What fsync, msync or
// close has acknowledged must be there. A unit written since may hold any value
// that was written to it since. After a reported error, a unit not yet
// acknowledged stays in doubt until it is written again: a later fsync promises
// nothing for it. So a write that failed on the server while neither fsync nor
// close reported shows as lost bytes. Of names, what a system call has
// acknowledged must be there; a call that failed, or whose caller was killed, may
// have been carried out or not, but as a whole.
//
// # Repeating
//
// The seed decides which cells run, in which order, and all their random choices. Which
// call a fault hits depends on the machine, too: a repeated cell does the same
// things to the same mount, but not at the same microsecond.
//
// # Goroutines
//
// A cell has one reader for each worker's pipe (runRead) and one that waits for
// each process (runWait); all end with their process. No lock is held across
// anything that can wait.
package torture
