// Package compare measures mounts side by side with the workloads of
// internal/workload, and has the medians, quartiles and ratios of their results, as
// tables and as JSON.
//
// The mounts take turns with each workload, so that what disturbs one disturbs all,
// and every workload finds a fresh mount, whose caches are empty. Absolute figures
// mean little on a shared or emulated machine.
//
// It owns the files of the workloads in the directory that every mount of a run
// shows. It starts no goroutine.
package compare
