// Package longbuf lends registered memory for what fits no inline buffer: chunks, and calls and replies in one piece.
//
// It owns one arena, in extents that it merges again, and the queue of callers that wait for room. It refuses to
// lend what an account, or the arena, can never hold. Invariants: no byte is lent twice; a lease comes back
// whole, and a second time is a panic; nobody waits while the first in line of its account could be served.
//
// It has no goroutines. Pool.mu is a leaf.
package longbuf
