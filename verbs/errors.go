package verbs

import (
	"errors"
	"fmt"
	"net/netip"
)

var (
	// ErrClosed: this side closed the connection, listener or device.
	ErrClosed = errors.New("closed")
	// ErrQueueFull: the queue has no room for the work request.
	ErrQueueFull = errors.New("work queue full")
)

// ConnError says that a connection could not be made or is dead, and why.
// Every error of a Conn that is not ErrClosed, ErrQueueFull, a context's or a
// *UsageError is one.
type ConnError struct {
	// Op is what was going on: "dial", "accept", "send", "receive", …
	Op     string
	Remote netip.AddrPort
	Err    error
}

func (e *ConnError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Op, e.Remote, e.Err)
}

func (e *ConnError) Unwrap() error { return e.Err }

// RejectError says that the peer is there and refused the connection.
type RejectError struct {
	Remote netip.AddrPort
	// Private is the peer's private data, if any. Some networks add zeroes.
	Private []byte
	// Reason is the provider's reading of it.
	Reason string
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("connection refused by RDMA peer %s: %s", e.Remote, e.Reason)
}

// UsageError says that a work request breaks the rules of its Op, names
// memory that is not registered, or exceeds a limit of Caps. The connection
// goes on as if it had not been posted.
type UsageError struct {
	Op  Op
	Why string
}

func (e *UsageError) Error() string { return fmt.Sprintf("work request %d: %s", e.Op, e.Why) }
