// Package stall ends a connection whose peer takes no data for too long. A goroutine that posts, or waits for a completion,
// sets a deadline, and clears it when it is done. One timer checks the deadlines of all goroutines of a connection: one
// timer per call would cost more than the rest of posting.
//
// It owns the timer, and refuses to know what is waited for. Watch.mu is a leaf. No goroutine is its own: end is called by
// the timer.
package stall
