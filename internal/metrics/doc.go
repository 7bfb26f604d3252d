// Package metrics makes Prometheus metrics of what daemons say of their mounts, and serves them over HTTP, on a TCP
// address or a Unix socket; "rdmafs exporter" for all mounts of a host, a daemon with -o metrics= for its own.
//
// It owns the names of the metrics (names.go) and the listener. It refuses to ask daemons: its Source does. A report may
// be another user's words: what is taken of one is bounded, and no report can make the others' metrics fail.
//
// Goroutines: Serve starts runServe, which Close joins.
package metrics
