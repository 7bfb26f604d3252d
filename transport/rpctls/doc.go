// Package rpctls is RPC-with-TLS (RFC 9289) for streams: what both ends of a TCP connection do before its first
// record, so that all further ones travel inside TLS 1.3.
//
// It owns the probe (a NULL call with the flavor AUTH_TLS), the handshake, the check of certificates, and the encrypted
// connection. It refuses to fall back: a server without TLS, a certificate that does not hold and a handshake that does
// not end within HandshakeTimeout are an *Error, and transport/tcp makes no link then. It knows neither mount options
// nor NFS; Client.Upgrade and Server.Upgrade are made for Config.Upgrade and ServerConfig.Upgrade of transport/tcp.
//
// A client does four things on each new connection: the probe, in clear text and the only thing that is; the handshake;
// the check of the certificate, by the rules of RFC 9289 section 5.2.1; and a NULL call inside TLS. The last is for TLS
// 1.3 itself: a server tells what it thinks of a client's certificate after the client's half of the handshake has
// ended well. Certificates and keys are read from their files for each connection, so that renewed ones are taken.
//
// A server looks at the first 44 bytes of a connection. If they are the probe, it answers and shakes hands; if not, they
// are handed on, and calls travel in clear text: whether they are served is the handler's decision
// (transport.Request.Encrypted, transport.TooWeak).
//
// Conn keeps what transport/tcp needs and a tls.Conn does not have: a write that a deadline interrupts goes on
// with the next one, as the record that was begun is kept in its encrypted form. So a call that is cancelled in the
// middle of its record neither corrupts the stream nor holds on to its payloads. Reading costs one copy, from the
// record to where the data belongs, and writing two, into the record and with others into one write.
//
// No goroutines. Locks: wire.mu is the innermost, taken below those of crypto/tls; it is not held while the socket
// is read or written, but for one attempt that does not wait, in Close.
package rpctls
