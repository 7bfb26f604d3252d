// Package requester makes calls of RPC-over-RDMA, in whichever direction they go: a client's on its server, and those that a
// server makes on a client's link (RFC 8167).
//
// It owns the slots of a connection, the choice of what is sent and what is exposed for a call, its keys and their
// invalidation, and the matching of replies. It refuses to know connections: of the one that it is on it has Rules, which
// are data, and a Conn, which posts, lends memory, says which terms are in force and ends the connection. What comes by the
// connection its owner hands over in a Batch.
//
// A call runs on its caller's goroutine from end to end (exchange.go): a credit
// and a slot are taken, the call is encoded into the slot's registered buffer,
// plan.Make chooses how it travels, and the binds of its keys and the Send are
// posted in one batch (marshal.go). The caller waits for its reply, and where the Rules say so it may receive from the
// connection meanwhile, for others too (wait.go, package turn). Who receives has the call of each reply found by its XID
// (batch.go), which takes the receive buffer in exchange for its slot's own. The
// caller makes invalid the keys that the responder left valid, and decodes (reply.go). A call that is refused for what can
// be mended is sent again, under its XID, slot and credit (amend.go).
//
// Invariants:
//
//   - A key covers exactly bytes of one call and is invalid before its Exchange returns, or the connection has ended. A long
//     buffer goes back to its pool after that, never before.
//   - A posted Send that gathers from the caller's memory has completed before Exchange returns.
//   - A call given up keeps its slot, XID and credit until its reply comes or the connection ends, because the responder
//     still has it.
//   - Receives are posted again before the caller of a reply wakes: Batch.Wake is apart from Batch.End for that.
//   - Errors: nothing reached the wire (NotSent); the connection ended, or ctx, before
//     the reply (Unknown); the responder sent something under the call's XID
//     (Answered), be it RDMA_ERROR or a reply that breaks the protocol.
//   - What answers no call is counted and dropped. More than MaxUseless messages of no use in a row are an error of
//     Batch.End.
//   - Each refusal that a call yields to forbids something that it had; it is
//     sent again Rules.Resends times at most.
//
// Corners of RFC 5666, if configured, hook in where corners is not nil: a reply by read chunks is fetched by its caller, who
// then sends RDMA_DONE and only then gives the call's credit back (fetch.go); a call's payload is aligned by padding
// (padding.go).
//
// # Goroutines and locks
//
// One, runDone, if replies by read chunks are configured: Connected starts it, Wait joins it once the connection has ended.
//
// Requester.mu is held for moments: by the calls, and by a Batch between Begin and End. Conn.Terms, Sending and Agree are
// called with it held, so the connection's locks come after it; so does the lock of credit.Credits. The turn's followers
// are under it, too. No lock is held while posting or waiting.
package requester
