// Package daemon has a program go on in the background once its mount is usable.
//
// The daemon is the program executed anew: RDMA resources do not survive a fork, and Go
// cannot fork without exec. It stays in the process group of the command until Leave. The package owns both
// processes' side of that: Start, in the command, waits for one byte on a socket or
// for the daemon's end; Parent, in the daemon, sends it. It refuses to know of
// mounts, and of exit codes but the daemon's own.
//
// Invariant: until Ready has succeeded the end of the command is the end of the
// daemon. Either the parent is notified, and its end means nothing from then on, or gone
// is called: never neither, never both.
//
// Goroutines: runReady ends with the socket, at the latest when Start returns;
// runAwait ends with the parent or Ready, which joins it. Parent.mu orders these two;
// gone is called with it held.
package daemon
