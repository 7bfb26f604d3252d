// Package credit is flow control (RFC 8166 section 3.3): it bounds the calls in flight on a connection, and decides which
// caller gets the next credit.
//
// It owns the grant in force and the queues of waiting callers. It refuses to let calls that may never be answered take
// all credits. Invariants: no more credits are held than the latest grant allowed when they were taken, and none more than
// were requested; callers are served in order of arrival, live calls before overdue ones.
//
// It has no goroutines. Credits.mu is a leaf.
package credit
