// Package rpcrdma carries RPC over RDMA, in version 1 (RFC 8166, with the private
// data of RFC 8797) and version 2 (draft-cel-nfsv4-rpcrdma-version-two-05, "the
// draft"): the requester, which is a transport.Dialer over any verbs.Device, and
// the responder, which serves a transport.Handler.
//
// It owns connections of both ends: receives and the reaping of completions, the version and the properties in force, and what of
// both is configured. It refuses to know what programs mean, and
// to trust a peer: chunk lists, lengths and grants are bounded before use.
//
// # The rooms
//
// Packages: wire has the transport headers, plan decides how messages travel, credit is flow control, longbuf the memory for
// what fits no inline buffer, layout says where data of a message that has come stands, requester makes calls, responder
// carries them out, stall ends a connection whose peer takes nothing, rfc5666 has what that RFC had besides. Here:
//
//   - connection is a client's end of a connection, as the requester and what serves the server's calls see it: posting, long
//     buffers, the terms in force, and its end (connection.go, version.go, control.go);
//   - link is such a connection with a requester on it, and with a responder where the server's calls are served (back.go);
//     it makes both, and gives them what it receives (link.go, reap.go);
//   - the server is its connections, and what arrives on them (server.go, server_conn.go, server_call.go). A connection is
//     the host of package responder for its client's calls (server_host.go), and of a requester for those in the backward
//     direction (server_back.go);
//   - props are version 2's properties, of both ends (props.go, props_exchange.go);
//   - configure.go has what the Connection Configuration Protocol changes, at both ends.
//
// connection is a type and not a package: it goes by the dialer's configuration, counters and long buffers in nearly every method,
// and nothing but a link uses it. The requester and what serves the server's calls see its methods alone.
//
// # The client
//
// Package requester says how a call is made. Of the callers that wait, one takes completions, also for the others, and passes
// that turn on when its own reply has come (package turn); while none waits, runReaper does. Who receives parses each message
// once, hands replies and completions to the requester in a batch, posts the receives again, and then has callers wake.
//
// Invariants:
//
//   - If an invalidation does not complete within DialerConfig.StallLimit, the link is closed, after which nothing is
//     reachable.
//   - Each credit in use has a receive posted. Receives are posted again before
//     the caller of a reply wakes.
//   - If anybody waits for a completion, somebody has the turn to take it, or is about to. Only late replies to calls given up
//     may wait a few milliseconds.
//   - When calls given up hold credits of the quarter that overdue ones leave, and a call waits for one,
//     the link ends (package credit).
//   - What answers no call is counted and dropped, and calls from the responder
//     (RFC 8167) are when nothing serves them. Too many messages of no use in a row end the link.
//   - What a peer can make a link hold is fixed when it connects, but for the
//     chunk lists of one header in each slot, of which package wire has the bounds.
//
// When configured, the first call of a link settles sizes (configure.go), calls from the responder are served (back.go), and the
// requester has corners of RFC 5666.
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
// (props.go, props_exchange.go).
//
//   - No receive is posted that is smaller than what the peer may count on.
//   - What a message about properties says is in force before the next message
//     is looked at; what it makes due is kept in a queue that is bounded, and
//     sent by control.run, or with the next call that the server takes up.
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
// that receives are posted, and exposer.mu is taken, with serverConn.mu held. serverConn.sendingProps and replyBatch.mu come
// before them, in this order, and are held while messages about properties and replies are posted.
//
// Of a link: one runReaper, which receives while no caller does; one control.run, which sends what
// version 2 has besides calls, unless the link stays in version 1; and, if configured, a runBack for
// each credit of backward calls, started by Dial, joined by Link.Close, and what the requester starts. The timer of
// package stall only ever ends the link.
//
// Its locks: the requester's comes before connection.mu, which is held for moments and not on the way of a call: what each call
// asks of its connection stands in atomics, which are replaced with mu held. longbuf.Pool.mu and stall.Watch.mu are leaves. dialer.mu is
// held while arenas are registered with the device. No lock is held while
// posting or waiting. props.mu is a leaf, taken with any of the others held.
package rpcrdma
