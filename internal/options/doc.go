// Package options is the vocabulary of -o: every mount option with its values, its
// default, its meaning and its counterpart in nfs(5), and what a list of them
// comes to.
//
// It owns Table, from which parsing, "rdmafs mount --help" and docs/options.md are
// made, and Options, the result. It refuses what the table does not have: an
// unknown option is an error that names it, never ignored.
//
// Invariants: Options that Parse returned without an error keep every bound of the
// table. The package knows the names of the RDMA providers and nothing else of
// them; a test in internal/providers holds the two lists to each other.
//
// No goroutines, no locks.
package options
