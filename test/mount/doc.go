// Package mount runs the rdmafs command in tests: it builds it once a process,
// mounts with it, reads its counters, and unmounts in every case.
package mount
