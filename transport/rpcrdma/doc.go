// Package rpcrdma carries RPC over RDMA (RFC 8166, with the private data of
// RFC 8797): the requester, which is a transport.Dialer over any verbs.Device,
// and the responder, which serves a transport.Handler.
//
// It owns the transport headers (chunk.go, v1.go, private.go), the choice
// between inline and chunk (plan.go), keys and their invalidation, credits,
// and the reaping of completions. It refuses to know what programs mean, and
// to trust a peer: chunk lists, lengths and grants are bounded before use.
//
// # The requester
//
// A call runs on its caller's goroutine from end to end (exchange.go): a credit
// and a slot are taken, the call is encoded into the slot's registered buffer,
// MakePlan chooses how it travels, and the binds of its keys and the Send are
// posted in one batch. The reaper finds the call of each reply by its XID, and
// gives the receive buffer to the slot in exchange for the slot's own. The
// caller makes invalid the keys that the responder left valid, and decodes.
//
// Invariants:
//
//   - A key covers exactly bytes of one call and is invalid before its Exchange
//     returns. If an invalidation does not complete within
//     DialerConfig.StallLimit, the link is closed, after which nothing is
//     reachable. A long buffer goes back to its pool after that, never before.
//   - A posted Send that gathers from the caller's memory has completed before
//     Exchange returns.
//   - Each credit in use has a receive posted. Receives are posted again before
//     anyone is told of a reply.
//   - A call given up keeps its slot, XID and credit until its reply comes or
//     the link ends, because the responder still has it.
//   - Errors: nothing reached the wire (NotSent); the link ended, or ctx, before
//     the reply (Unknown); the responder sent something under the call's XID
//     (Answered), be it RDMA_ERROR or a reply that breaks the protocol.
//   - What answers no call, calls from the responder (RFC 8167) included, is
//     counted and dropped. More than maxBad messages of no use in a row end the
//     link.
//   - What a peer can make a link hold is fixed when it connects, but for the
//     chunk lists of one header in each slot, of which chunk.go has the bounds.
//
// Goroutines: one runReaper for each link, started by Dial, joined by
// Link.Close. A slot's stall timer only ever ends the link.
//
// Locks: link.mu, credits.mu and longPool.mu are leaves, except that the reaper
// updates grants with link.mu held: link.mu before credits.mu. dialer.mu is
// held while arenas are registered with the device. No lock is held while
// posting or waiting.
package rpcrdma
