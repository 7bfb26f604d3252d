// Package tcp carries ONC RPC over TCP with record marking (RFC 5531 section
// 11): Dialer makes a client's links, Serve is the server's half.
//
// It owns sockets, records and their buffers. It refuses to resend, to time calls
// out, and to choose transaction ids: transport/reconnect does that.
//
// Sending. Callers write on their own goroutines: header and payloads go out in one
// writev, the payloads directly from their arenas. A caller that finds the socket
// busy queues its packet in the outbox; a flusher, which runs only while the queue
// is not empty, writes all queued packets at once. A call that is cancelled in the
// middle of its record is finished from a copy, so that its payloads are released
// at once and the stream stays intact.
//
// Receiving. Of the callers that wait for replies one reads the connection, also for the
// others (await.go, package turn); long replies, and what comes while none waits, runReader reads. Of the goroutines of a server's
// connection one reads, and answers what it has read (package crew); up to ServerConfig.Concurrent calls are under way. Replies
// to short calls that came together are sent together. A socket is polled before it is waited for (package spin) by a caller that
// expects a short reply, and by a server that carries out no call; never in the middle of a record, nor for a long one: that takes from
// the sender what the stream needs. A record is bounded,
// that of a reply by what its call allows; the excess is skipped, and a record above
// the configured maximum ends the connection. If a long reply ends with its payload,
// as that of READ does, the data is read from the socket directly into the payload;
// cancelling the call stops that at once.
//
// What comes before the records, as the start of TLS, is the business of Config.Upgrade and ServerConfig.Upgrade
// (package rpctls). What they return may gather what is written by itself (BuffersWriter): it keeps what it has taken when it is
// interrupted, so that the outbox goes on behind it. Its reads poll as those of a socket do.
//
// Both directions. A server calls its client over the connection that the client
// has made (transport.Backchannel); the client serves such calls if its Config has
// a handler, within bounds of its own. In either direction requester makes calls
// and worker answers them. Who reads a connection never waits for a reply, nor
// for a call that waits for one.
//
// Goroutines: runReader of each link and runCallback of each call that it serves,
// joined by Close; runFlush of an outbox, joined by its close; runConn and
// runReceiver, the crew of a connection of a server's, joined by Serve.
//
// Locks: requester.mu guards the pending calls and is never held together with
// outbox.mu. server.mu may be held when outbox.mu is taken, and backchannel.mu when
// requester.mu is. No lock is held while a socket is read or written.
package tcp
