// Package script makes an embedded server misbehave as it is told while it
// runs: replies that are late, cut short, doubled, or for another call; one file
// that never answers; one credit; a clock that jumps; COMMITs that are a lie.
//
// It owns three places where it can do so: a wrapper of the server's handler, one
// of its RDMA device, and a proxy for records of TCP. The server and the
// transports know nothing of it.
//
// Its only lock, Script.mu, is a leaf. A proxy has runAccept and two goroutines
// for each connection; Close joins them.
package script
