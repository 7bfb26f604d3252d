// Package tcp carries ONC RPC over TCP with record marking (RFC 5531 section
// 11): Dialer makes a client's links, Serve is the server's half.
//
// It owns sockets, records and their buffers. It refuses to resend, to time
// calls out, and to make transaction ids: transport/reconnect does.
//
// Sending. Callers write on their own goroutines: header and payloads go out
// in one writev, the payloads straight from their arenas. Who finds the socket
// busy leaves its packet in the outbox; a flusher, started for as long as there
// is a queue, writes what has gathered there in one go. A call that is
// cancelled in the middle of its record is finished from a copy, so that its
// payloads are free at once and the stream stays whole.
//
// Receiving. A client's link has one reader, a server's connection one reader
// and workers up to a bound, made as they are needed. A record is never longer
// than its bound, which for a reply follows from the call; more is skipped,
// and what exceeds the configured maximum ends the connection. Of a long reply
// that ends with its payload, as READ's does, the data goes from the socket to
// where it belongs; a call cancelled meanwhile stops that at once.
//
// Both directions. A server calls its client by the connection that the client
// has made (transport.Backchannel); the client serves that where its Config has a
// handler, within bounds of its own. Either way requester makes calls and worker
// answers them. Nobody who reads a connection waits for a reply, or for somebody
// who waits for one.
//
// Goroutines: runReader of each link and runCallback of each call that it serves,
// joined by Close; runFlush of an outbox, joined by its close; runConn and
// runWorker of a server, joined by Serve.
//
// Locks: requester.mu guards the pending calls and is never held together with
// outbox.mu. server.mu may be held when outbox.mu is taken, and backchannel.mu
// when requester.mu is. No lock is held
// while a socket is read or written.
package tcp
