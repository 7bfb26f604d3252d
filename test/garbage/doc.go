// Package garbage has what tests of heap allocations need, and a test of its own: the
// allocations of READs and WRITEs from the cache to the wire, on each transport. There the
// server runs in another process, so that what is counted is the client's alone; its own
// allocations are counted by itself.
//
// It keeps no state and starts no goroutine.
package garbage
