// Package rpctest is one suite of calls that every transport.Caller must pass
// together with its server's half.
//
// It owns a program of its own whose procedures have every shape of call that
// NFS has, and a few worse ones: payloads in, out and both, long arguments and
// long results without payload, every accept_stat, calls that the server
// holds. It checks that data arrives whole, that memory beside a payload, or
// of a call that was given up, is not touched, that a call whose connection
// was cut is sent again under its XID, and that nothing is left running.
//
// RunBackward is the suite of calls that a server makes by a connection that the
// client has made. Another suite has calls that a live server does not answer, by a clock of its
// own: they and calls given up must not keep others waiting.
//
// It refuses to know a transport; the garbage that a peer may send is for each
// transport's own tests, and other timeouts for those of transport/reconnect.
//
// Goroutines: those of the suite are joined by the subtest that starts them.
package rpctest
