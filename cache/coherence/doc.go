// Package coherence decides what may be cached of one file or directory, and
// what the kernel must be told when that changes. It has no locks, goroutines or
// clock: the caller serializes all calls on a value, says when things happened,
// and carries out what the methods return.
//
// Node holds the attributes of a file, how long they stay fresh, and the state that
// everything cached of the file agrees with: when a reply shows another one, it says
// whether that was our own change or someone else's (RFC 1813 section 2.6, weak cache
// consistency). It also says whether all names of a directory that was made here are
// known. Rights is what the server has said of users' rights. Pages is what
// the kernel has: whether its pages and attributes must be invalidated, and whether
// it has learned the size since.
//
// Events are ordered by generations, numbers drawn from one counter of the caller's:
// that of a call when it is sent, that of a reply's effects when the reply is handed
// in.
package coherence
