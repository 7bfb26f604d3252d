// Package hostile makes an NFS server that lies: its replies are well-formed
// NFSv3, but what stands in them is absurd, contradicts what it said before, or
// never comes to an end.
//
// A Liar stands before the handler of a server that speaks the truth, so that
// what it serves otherwise is real, and the truth can be told again: a client
// must then work as if nothing had been. Each Lie is a value with a name; Lies
// lists them all. Trickle is the one that is told below RPC: a stream that
// delivers one byte at a time.
//
// What a client owes its user while it is lied to: no panic, no memory without
// a bound, no harm to other mounts and no request that outlives its timeout. It
// does not owe right data, since the server is where data comes from.
//
// The package starts no goroutine. Liar.mu guards its fields; it is held across
// no call.
package hostile
