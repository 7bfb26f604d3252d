// Package hostile makes an NFS server that lies: its replies are well-formed
// NFSv3 or NFSv4, but their values are absurd, contradict earlier replies, or never come to
// an end.
//
// A Liar wraps the handler of a correct server, so that the replies it leaves
// alone are real, and the lying can be ended: a client must then work as if
// nothing had happened. Each Lie is a value with a name; Lies and Lies4 list them all.
// Trickle lies below RPC: a stream that delivers one byte at a time.
//
// What a client guarantees its user while the server lies: no panic, no unbounded
// memory, no harm to other mounts and no request that outlives its timeout. It
// cannot guarantee correct data, which the server supplies.
//
// The package starts no goroutine. Liar.mu guards its fields; it is held across
// no call.
package hostile
