// Package bench is "rdmafs bench" without what is measured: it runs the workloads of
// internal/workload on a Ground within a time, and says what came of it, as a table, as
// JSON and as hints.
//
// It owns the JSON of "rdmafs bench". Keys are lower_snake_case, as in the doctor's. It
// refuses to mount: cmd/rdmafs has the grounds.
//
// No goroutines of its own, no locks.
package bench
