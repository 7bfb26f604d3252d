// Package xdr encodes and decodes XDR (RFC 4506) with marked payloads.
//
// It owns the byte stream of one RPC message. Data items that RDMA may place
// directly (RFC 8267) are not copied into the stream: Writer marks the position of
// each, and the transport decides how it is sent. Where a Reader's items stand that are
// not in its stream, the transport tells it by a Layout.
//
// It refuses reflection and allocation by the peer's word: every length is
// checked against a bound given by the caller and against the bytes that are
// really there, and the first error sticks.
//
// Positions are those of the unreduced stream, the one in which all items
// stand inline (RFC 8166 section 3.4.4).
//
// The package starts no goroutine; a Writer or Reader belongs to one at a time.
package xdr
