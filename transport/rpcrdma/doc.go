// Package rpcrdma carries RPC over RDMA, in version 1 (RFC 8166, with the private
// data of RFC 8797) and version 2 (draft-cel-nfsv4-rpcrdma-version-two-05, "the
// draft"): the requester, which is a transport.Dialer over any verbs.Device, and
// the responder, which serves a transport.Handler.
//
// It owns the choice between inline and chunk (plan.go), keys and their invalidation, credits,
// and the reaping of completions; package wire has the transport headers. It refuses to know what programs mean, and
// to trust a peer: chunk lists, lengths and grants are bounded before use.
//
// # The rooms
//
// Packages: wire has the transport headers, plan decides how messages travel, credit is flow control, longbuf the memory for
// what fits no inline buffer, layout says where data of a message that has come stands, responder carries out calls,
// rfc5666 has what that RFC had besides. Here:
//
//   - the requester makes calls on a connection (requester.go, exchange.go, marshal.go, slot.go, replied.go, reply.go,
//     amend.go) and knows of that connection what the interface port says. A client's link is one, and so is a server's
//     backchannel (server_back.go);
//   - the link is a client's connection: receives and reaping (link.go, reap.go), posting (link_port.go, stall.go),
//     the version in force (version.go, control.go);
//   - the server is its connections, and what arrives on them (server.go, server_conn.go, server_call.go). A connection is
//     the host of package responder for its client's calls (server_host.go), and so is a client's link for the calls that
//     the server makes (back.go);
//   - props are version 2's properties, of both ends (props.go, props_exchange.go);
//   - corners of RFC 5666 hook into the requester where they are configured (msgp.go, fetch.go, configure.go).
//
// # The requester
//
// A call runs on its caller's goroutine from end to end (exchange.go): a credit
// and a slot are taken, the call is encoded into the slot's registered buffer,
// plan.Make chooses how it travels, and the binds of its keys and the Send are
// posted in one batch. Of the callers that wait, one takes completions, also for the others, and passes that turn on when
// its own reply has come (rest.go, package turn); while none waits, runReaper does. Who receives finds the call of each reply by its XID, and
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
//     the caller of a reply wakes.
//   - If anybody waits for a completion, somebody has the turn to take it, or is about to. Only late replies to calls given up
//     may wait a few milliseconds.
//   - A call given up keeps its slot, XID and credit until its reply comes or
//     the link ends, because the responder still has it. When such calls hold
//     credits of the quarter that overdue ones leave, and a call waits for one,
//     the link ends (package credit).
//   - Errors: nothing reached the wire (NotSent); the link ended, or ctx, before
//     the reply (Unknown); the responder sent something under the call's XID
//     (Answered), be it RDMA_ERROR or a reply that breaks the protocol.
//   - What answers no call is counted and dropped, and calls from the responder
//     (RFC 8167) are when nothing serves them. More than maxBad messages of no
//     use in a row end the link.
//   - What a peer can make a link hold is fixed when it connects, but for the
//     chunk lists of one header in each slot, of which package wire has the bounds.
//
// When configured, a reply by read chunks is fetched by its caller, who then
// sends RDMA_DONE and only then gives the call's credit back (fetch.go); a call's
// payload is aligned by padding (msgp.go); the first call of a link settles sizes
// (configure.go); and calls from the responder are served (back.go).
//
// # The responder
//
// A Server takes clients from listeners. A call belongs to one member of its connection's crew (package crew) from the time that
// it is taken up until its reply is posted (server_call.go): the header is checked,
// memory for all of it is leased, read chunks are pulled, the handler runs (responder/call.go),
// and responder/reply.go sends what it has encoded, as package plan has decided.
//
// Calls that a server makes on a client's link are carried out by the same code under other rules: in version 1 they
// have no chunks, write chunks stay unused, memory is the call's own instead of leased, and one call at a time uses each
// of the credits, whose goroutine waits for what it has posted.
//
// Invariants:
//
//   - Memory for chunks is leased once in a call, before anything is pulled, and
//     for the reply, too (package longbuf). A call that waits for memory holds none,
//     so calls cannot wait for each other. Nothing waits while it holds the
//     reaper.
//   - A lease goes back when the Send that ends the call has completed, or when
//     the connection has been closed; in between work requests may name it.
//   - What a client can make the server hold is bounded: its own arena, fixed
//     when it connects, ServerConfig.ConnMemory for chunks, one goroutine for each
//     receive, and the lists of one header in each call. What all can, by
//     ServerConfig.Memory and MaxConns.
//   - The receive of a call is posted again, and receives for all credits
//     granted with it, before the reply is sent.
//   - Work requests posted never exceed the send queue, nor RDMA Reads what the
//     client serves: tokens that completions give back bound both.
//   - A chunk list that breaks the rules costs its call (ERR_CHUNK); a key that
//     is not valid, a message without an XID, a call beyond the receives, or a
//     client that takes nothing for ServerConfig.StallTimeout, the connection.
//   - Send with Invalidate is used when the client's private data allows it and
//     its call named exactly one key.
//   - A reply by read chunks, which must be configured, keeps its call's memory
//     and keys until RDMA_DONE has come and the keys are invalid; a client has a
//     bounded number of them, and bounded time (server_expose.go).
//   - Backward calls (server_back.go) run on their callers' goroutines, which
//     runConn waits for before it gives the buffers back. A slot is used again
//     when its Send has completed and its reply has come.
//
// # Version 2
//
// What differs for requester and responder is in few places. A link chooses its version with its first call (version.go);
// the responder answers each message in the version that it has. props holds, for
// both, what of properties is in force, and makes the messages about them
// (props.go, props_exchange.go). A call that is refused for what can be mended is
// sent again, under its XID, slot and credit (amend.go).
//
//   - No receive is posted that is smaller than what the peer may count on.
//   - What a message about properties says is in force before the next message
//     is looked at; what it makes due is kept in a queue that is bounded, and
//     sent by control.run, or with the next call that the server takes up.
//   - Each refusal that a call yields to forbids something that it had; it is
//     sent again maxResends times at most.
//   - Memory opened for a long backward call is fenced before it is given back.
//
// # Goroutines and locks
//
// Of a Server: one runWatch for each Serve, and for each client one runConn,
// and its runReceivers, the crew: one of them reaps, and carries out calls; those that were relieved carry out theirs, post the
// replies, and reap what of them is done by then. Replies to calls that came together are posted together (replyBatch). Whatever
// may wait for a completion, for memory or for the client has somebody receive first (Crew.Relieve).
// Serve joins runWatch and runConn, runConn the crew.
// Server.mu, serverConn.mu, exposer.mu and longbuf.Pool.mu are leaves, except
// that receives are posted, and exposer.mu is taken, with serverConn.mu held. serverConn.telling and replyBatch.mu come
// before them, in this order, and are held while messages about properties and replies are posted.
//
// Of a requester: for each link one runReaper, which receives while no caller does; one control.run, which sends what
// version 2 has besides calls, unless the link stays in version 1; and, if configured, one runDone and a runBack for
// each credit of backward calls, started by Dial, joined by Link.Close. The stall
// timer (stall.go) only ever ends the link.
//
// Its locks: requester.mu, credit.Credits.mu, stall.mu and longbuf.Pool.mu are leaves, except that
// grants are updated with requester.mu held: requester.mu before Credits.mu. dialer.mu is
// held while arenas are registered with the device. No lock is held while
// posting or waiting. props.mu is a leaf, taken with any of the others held.
package rpcrdma
