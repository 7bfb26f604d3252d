// Package rfc5666 has what RFC 5666 had and RFC 8166 dropped, as far as it is apart from the requester and the responder:
// the Connection Configuration Protocol, and RDMA_MSGP, in which payloads are aligned by padding. Replies by read chunks
// (section 3.8) are in package rpcrdma, fetch.go and server_expose.go. All of it is used only by links and servers whose
// configuration asks for it, but for the padding of a peer's messages, which is understood always.
//
// It refuses sizes that are out of bounds. It has no state, no goroutines and no locks.
package rfc5666
