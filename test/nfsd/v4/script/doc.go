// Package script makes an embedded server of NFSv4.1 and 4.2 misbehave as it is told while it
// runs: an operation fails, a COMPOUND or its reply is lost with the connection, a delegation is
// recalled, a client expires, the server restarts, slots are taken away.
//
// It owns the rules, and the two places where they strike: nfsd.Faults.Operation, before an
// operation is carried out, and nfsd.Config.Wrap, around the whole COMPOUND. All else it has
// the server's state and callbacks do. The server knows nothing of it.
//
// Its only lock, Script.mu, is a leaf. It starts no goroutine.
package script
