// Package rpctest is one suite of calls that every transport.Caller must pass
// together with its server's half.
//
// It owns a program of its own whose procedures have every shape of call that
// NFS has, and some that it does not: payloads in, out and both, long arguments and
// long results without payload, every accept_stat, calls that the server delays.
// It checks that data arrives whole, that nothing writes to memory beside a payload or
// of a cancelled call, that a call whose connection was lost is resent under its XID,
// and that no goroutine is left.
//
// RunBackward is the suite of calls that a server makes on a connection that the client
// has made. RunUnanswered is about calls that a live server does not answer: neither
// they nor cancelled calls may delay others. It has a clock of its own.
//
// It refuses to know a transport: malformed messages are tested by each transport, and
// other timeouts by transport/reconnect.
//
// Goroutines: those of the suite are joined by the subtest that starts them.
package rpctest
