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
// Goroutines: runReader of each link, joined by Close; runFlush of an outbox,
// joined by its close; runConn and runWorker of a server, joined by Serve.
//
// Locks: link.mu guards the pending calls and is never held together with
// outbox.mu. server.mu may be held when outbox.mu is taken. No lock is held
// while a socket is read or written.
package tcp
