// Package coherence decides what may be cached of one file or directory, and
// what the kernel must be told when that changes. It has no locks, goroutines or
// clock: the caller serializes all calls on a value, says when things happened,
// and carries out what the methods return.
//
// Attrs holds the attributes last seen, how long they may be believed, and
// whose change it was when they differ (RFC 1813 section 2.6, weak cache
// consistency). It is built on Chain, which connects the states that our own
// changes report. Pages is what the kernel has of a file: whether its pages and
// attributes must be invalidated, and whether it has learned the size since.
//
// Order is told by generations: numbers drawn from one counter of the caller's.
// A call's generation is drawn when it is sent, that of its answer's effects
// when the answer is handed in.
package coherence
