// Package responder carries out calls of RPC-over-RDMA, in whichever direction they go: it checks a call's chunks, leases
// memory for all of it at once, pulls what is to be pulled, runs the handler, and sends its reply, or an error, the way
// that package plan decides.
//
// It refuses to know connections: of the one that a call came by it has Rules, which are data, and a Host, which lends
// memory, posts and ends the connection. It has no goroutines and no locks; a Call belongs to one goroutine at a time.
package responder
