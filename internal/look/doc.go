// Package look finds out what there is at a path that may never answer.
//
// A path may lead to a mount whose daemon or server is gone, and a process that asks
// the kernel about it then waits for ever, perhaps not even to be killed. So a process
// of its own asks, this program executed anew, which is left behind if it does not
// come back within Timeout. It reports each step before it takes it, so that the
// place that does not answer is known.
//
// The package follows symbolic links itself, as the kernel does, and touches no more
// than it must: a mount point whose name will do is not entered. It refuses to judge:
// the commands have the words.
//
// No state, no goroutines, no locks.
package look
