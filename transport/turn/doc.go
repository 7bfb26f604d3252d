// Package turn lets those who wait on a connection receive from it themselves: one of them
// at a time has the turn. A leader receives until it has what it waits for, gives others what it receives for them, and
// then passes the turn to one of those who still wait, the followers. A call on a connection that nobody else uses thus
// needs no other goroutine than its caller's.
//
// It owns whose turn it is. It refuses to know what is received, or how.
//
// Invariants:
//
//   - If anybody waits, as a follower or since Expect, somebody has the turn, or the attendant is about to take it.
//   - One goroutine at a time has the turn. Each release wakes one goroutine at most.
//   - A follower that is woken because it has what it wants is not listed any more, so the turn is not passed to it.
//   - A leader leaves when its context ends or the connection does; a follower that leaves passes on the turn if it
//     has just got it.
//
// The newest follower gets the turn: its reply is likely to be the last, so that it leads for long, and others sleep once.
//
// # The attendant
//
// Somebody must watch a connection that nobody waits on, for its end, and for what the peer begins. To take the turn back from a goroutine
// that is blocked on the socket costs as much as what a call saves. So the attendant, one goroutine of the connection, takes the
// turn only when no caller has had it between two ticks of a timer, or when Expect summons it, and gives it up when it has received
// something for a caller. The first call after a pause is thus received by the attendant, and those that follow by their callers.
//
// # Goroutines and locks
//
// None of its own; the owner of the connection runs the attendant. The lock is the owner's, taken here for moments by release and
// watchLeader, and never while interrupt runs.
package turn
