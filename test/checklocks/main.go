// Command checklocks is a vet tool that proves what comments say of locks.
//
// A function whose comment says "mu is held" must be called with that lock held,
// and one whose comment says "mu is not held" or "no lock is held" without it.
// The lock is named as a field of the receiver or of a parameter ("mu is held"), or
// by a path from one of these, from a type or from a variable of the package
// ("i.mu is held", "Cache.mu is held", "post.mu is held"). "With mu held" says the
// same. What is held only sometimes ("is held if", "is held, or", "is held unless") is
// assumed in the function and not demanded of its callers.
//
// Locks are told apart by the field that they are, not by the value that it is a
// field of: a lock of one inode passes for that of another. A function literal may
// rely on what is held where it is written and on what the function that it is passed
// to locks before it calls it, and on nothing in a go statement or an argument of Go,
// AfterFunc or spawn. What functions of the package leave locked or unlocked is found
// out.
//
// A line that is right all the same says //checklocks:ignore and why. Tests are not
// looked at.
//
//	go vet -vettool=checklocks ./...
package main

import "golang.org/x/tools/go/analysis/unitchecker"

func main() { unitchecker.Main(Analyzer) }
