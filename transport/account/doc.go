// Package account counts what calls cost, by procedure: how many, how many failed, their bytes, and how long they
// waited here, travelled, and took altogether.
//
// It owns the Table of counters, which a caller of package reconnect adds to after each call, and Snapshots of it,
// which can be subtracted from each other. It refuses to know of any program more than its number, its name and
// those of its procedures.
//
// Invariants: a Table never blocks and adding to it allocates nothing, but for the first call of a procedure. Times
// are kept as log-linear histograms: a time is known to an eighth of itself. A Snapshot is not one moment: calls
// that end meanwhile are in some of its numbers only.
//
// No goroutines, no locks.
package account
