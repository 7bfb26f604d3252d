// Package doctor walks the chain of things that a mount needs, from the FUSE
// device to a trial mount, and says of each what it found and what may help.
//
// It owns the order of the steps, how grave a finding is, and how a report
// looks. It refuses to know how a mount is made: the command hands it, in a
// Case, functions that are the mount's own, so that a finding is about what
// "rdmafs mount" really does. The verdict is that of a trial, never a sum of
// the steps.
//
// Grave is what keeps the mount from succeeding. A way that the mount has no
// need of, since its options exclude it or another way works, is at most worth
// a warning; what cannot be tried is skipped, with the reason.
//
// A step is a value (report.go), printing them is another matter (render.go).
// The groups of steps: machine.go (FUSE, limits, providers), devices.go
// (libraries, modules, RDMA devices), network.go (names, routes), ways.go
// (connections, RPC), export.go (MOUNT and the trial), rights.go (what the caller
// may do in the export), transfer.go (data both ways). examine.go puts them in
// order. Of a server's export they change one thing: a file with a name of its
// own is made, written, read and removed, if the Case lets them.
//
// Goroutines: ways.go connects over all ways at once, a runConnect for each,
// joined before anything is measured. Times are bounded by the Case's Patience
// for each attempt. No locks.
package doctor
