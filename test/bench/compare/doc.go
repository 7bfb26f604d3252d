// Package compare measures mounts side by side: the workloads of the
// benchmarks, and the medians and ratios of their results.
//
// It owns the files "large", "small" and "list" in the directory that every
// mount of a run shows. The mounts take turns with each workload, so that what
// disturbs one disturbs all, and every workload finds a fresh mount, whose
// caches are empty. All metrics but the cost in processor time are rates. Absolute figures
// mean little on a shared or emulated machine.
//
// It starts no goroutine: what is in flight at once is the kernel's
// asynchronous I/O.
package compare
