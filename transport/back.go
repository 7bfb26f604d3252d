package transport

import "context"

// Backchannel makes calls on a client, on a connection that the client made
// (RFC 8167). A protocol must know that its client serves such calls before it
// makes the first. The methods may be called from any goroutine, also after the
// Serve that got the Backchannel has returned.
type Backchannel interface {
	// Call sends c and waits for the result, as Caller.Call does, but once:
	// when the connection is lost the error's Fate is NotSent or Unknown, and
	// only the client can make another one. Payloads travel inline.
	Call(ctx context.Context, c *Call) error
	// Done is closed when the connection has ended.
	Done() <-chan struct{}
}
