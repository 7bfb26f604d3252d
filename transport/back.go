package transport

import "context"

// Backchannel makes calls on a client over a connection that the client has made
// (RFC 8167). The protocol above must know that the client serves such calls. The
// methods may be called from any goroutine, also after the Serve that got the
// Backchannel has returned.
type Backchannel interface {
	// Call sends c and waits for the result, as Caller.Call does, but once: when
	// the connection is lost the error's Fate is NotSent or Unknown, and only the
	// client can make another connection. Payloads are sent inline.
	Call(ctx context.Context, c *Call) error
	// Done is closed when the connection has ended.
	Done() <-chan struct{}
}
