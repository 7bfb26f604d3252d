// Package doctor checks, step by step, everything that a mount needs, from the FUSE
// device to a trial mount, and reports for each step what it found and what may help.
//
// It owns the order of the steps, how severe a finding is, and how a report is
// printed. It refuses to know how a mount is made: a Case has functions that are the
// mount's own (internal/checkup), so that a finding is about what "rdmafs mount"
// really does. The verdict is that of a trial, never a sum of the steps.
//
// A failure is what keeps the mount from succeeding. A way that the mount does not
// need, since its options exclude it or another way works, is at most a warning; what
// cannot be tried is skipped, with the reason.
//
// A step is a value (report.go); printing is separate (render.go). The groups of
// steps: machine.go (FUSE, limits, providers), devices.go (libraries, modules, RDMA
// devices), network.go (names, routes), attempt.go and ways.go (connections, RPC),
// export.go (MOUNT and the trial), version4.go (what version 4 has in place of MOUNT), rights.go (what the caller may do in the export),
// transfer.go (data both ways), locks.go (NLM). examine.go puts them in order. They change one thing
// in a server's export, and only if the Case allows it: a file with a name of its own
// is made, written, read, locked and removed.
//
// Goroutines: attempt.go connects over all ways at once, one runConnect for each, joined
// before anything is measured. Each attempt is bounded by the Case's Timeout. No
// locks.
package doctor
