// Package locks decides which of a mount's lock owners may ask the server for a
// lock, which must wait for another of them, and in which order they go on.
//
// It owns what each owner holds, as far as the server has granted it, and the
// requests that are under way. It refuses to call the server, to wait and to wake:
// Table is a machine, and its user carries out the Effects.
//
// A request that may go is asked of the server by its user, who then says how that
// ended. Nothing is held before the server has granted it, so that a request that
// fails leaves what was held as it was. What is given up is not held any more when
// the request goes, but nobody else may ask for it before the server has answered.
//
// Invariants: no two requests go at once that overlap and are either of one owner
// or in conflict. A request that waits at the server makes later ones wait that may
// wait; the server decides about the others. Nothing that was granted conflicts,
// unless the server has granted both.
//
// No goroutines, clock, I/O or locks.
package locks
