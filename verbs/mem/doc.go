// Package mem owns memory that RDMA devices may be given: arenas mapped
// outside the Go heap, and segments that name a stretch of one.
//
// It refuses to know devices, keys or protocols; every layer below fs may
// import it and it imports none of them.
//
// Invariants: an arena's bytes never move and are never seen by the garbage
// collector, so a device may hold their address; a Seg is a plain value that
// owns nothing. The creator of an arena closes it, after its last registration
// is gone.
//
// The package starts no goroutine and holds no lock across a call.
package mem
