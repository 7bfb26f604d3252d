// Package rpcrdma carries RPC over RDMA (RFC 8166, with the private data of
// RFC 8797): the requester, which is a transport.Dialer over any verbs.Device,
// and the responder, which serves a transport.Handler.
//
// It owns the transport headers (chunk.go, v1.go, private.go), the choice
// between inline and chunk (plan.go), keys and their invalidation, credits,
// and the reaping of completions. It refuses to know what programs mean, and
// to trust a peer: chunk lists, lengths and grants are bounded before use.
package rpcrdma
