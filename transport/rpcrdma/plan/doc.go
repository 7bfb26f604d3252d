// Package plan decides how messages travel: of a call and the memory for its reply, inline or by which chunks (Make); of
// a call that came with chunks, what is to be pulled, and to where (Pull); of a reply, what goes into which of the chunks
// that its client offered (ForReply); and it lays the bytes of a stream out as decided (LayOut).
//
// All of it is pure functions: they take lengths and lists, and move nothing. The package refuses chunk lists that break
// the rules, with the error that their sender is owed (Refusal). Invariants: the length of the header that a plan names
// is exact; no plan has a message exceed an inline threshold, or a chunk list its bounds; what a Pull names lies in the
// memory that it asks for, without overlap.
//
// It has no goroutines and no locks.
package plan
