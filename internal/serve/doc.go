// Package serve runs a mount the way a daemon does: a session under a directory, by
// FUSE, that answers on its control socket until it ends.
//
// It owns the order in which these begin and end, how a mount ends by force, and what
// is said of data that was lost. It refuses to know of processes, signals, terminals
// and exit codes: a context asks for the end of a mount, errors say how it ended. The
// command rdmafs is one user of it; a program that serves many mounts is another.
//
// Invariants: what fails leaves nothing behind. Serve returns nil only when everything
// written is safe on the server. A Mount that was returned is served, exactly once.
//
// A process that serves a mount must heed what package mount says of it.
//
// Goroutines: runAnswer, of the control socket, which Serve joins; runUnmount, which Serve
// joins when the mount was unmounted in order, and which otherwise ends with its system call;
// runWait, which ends when the kernel has let go of the file system; runAbandoned, which
// waits for that and closes the session where Serve has returned before. Done is closed
// when the session is closed.
//
// Locks: none.
package serve
