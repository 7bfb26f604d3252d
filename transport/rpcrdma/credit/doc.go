// Package credit is flow control (RFC 8166 section 3.3): how many calls may be under way on a connection, and who gets the
// next credit.
//
// It owns the grant in force and the queue of those who wait. It refuses to let calls that may never be answered take all
// there is. Invariants: no more credits are held than the latest grant allowed when they were taken, and none more than
// were requested; whoever waited longest is served first, live calls before overdue ones.
//
// It has no goroutines. Credits.mu is a leaf.
package credit
