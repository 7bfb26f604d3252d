// Package workload is what the benchmarks do to a file system, and how it is timed
// and counted: "make bench", "make bench-knfsd" and "rdmafs bench" do the same.
//
// It owns the workloads (All), the interface by which they use a file system (Place),
// that of the operating system's directories (Dir), and what a client's process has
// spent (Spent). It refuses to mount, to compare and to print: test/bench/compare and
// cmd/rdmafs do.
//
// Invariants: a workload makes, by Prepare, whatever it needs and does not find, so
// that each can be run alone and in any order. It works below the names "large",
// "small", "list", "dirs", "tree" and "clone" of its Place and nowhere else; Clean removes
// them. Contents and places are the same in every run.
//
// Goroutines: a workload of n threads starts n runThread and joins them. What else
// is in flight at once is the kernel's asynchronous I/O. No locks.
package workload
