// Package wire has the transport headers of RPC-over-RDMA, version 1 (RFC 8166, with RDMA_MSGP and RDMA_DONE of
// RFC 5666) and version 2 (draft-cel-nfsv4-rpcrdma-version-two-05, which comments cite as the draft), and the
// private data of RFC 8797: one Go type a message, each with Append and Parse.
//
// A receiver calls ParseHeader, which reads the four words that all headers begin with, and then, by their Proc,
// Parse of the message's own type, with a value that it uses again: lists keep their memory. Parse, the
// function, does both, for messages that are rare.
//
// The package owns bytes only. It refuses to interpret what it has parsed, except for the rules that a header
// carries in itself. Invariants: everything a peer sends is bounded before memory is allocated for it
// (chunk.go, propset.go); what is parsed borrows from the message only property sets and options; a header that was
// parsed is encoded to the same bytes.
//
// It has no goroutines and no locks.
package wire
