package provider

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs"
)

// DefaultBacklog is that of listeners that do not ask for another.
const DefaultBacklog = 64

// Backlog holds the connection requests of a listener that are ready to be
// accepted.
type Backlog struct {
	stopped context.Context
	stop    context.CancelCauseFunc
	ready   chan verbs.Request
}

// NewBacklog makes a backlog of n requests at most, or of DefaultBacklog.
func NewBacklog(n int) *Backlog {
	if n <= 0 {
		n = DefaultBacklog
	}
	b := &Backlog{ready: make(chan verbs.Request, n)}
	b.stopped, b.stop = context.WithCancelCause(context.Background())
	return b
}

// Stopped ends with Stop.
func (b *Backlog) Stopped() context.Context { return b.stopped }

// Size is how many requests it can hold.
func (b *Backlog) Size() int { return cap(b.ready) }

// Add queues a request, if there is room.
func (b *Backlog) Add(r verbs.Request) bool {
	select {
	case b.ready <- r:
		return true
	default:
		return false
	}
}

// Accept waits for the next request. It returns the cause once Stop was called,
// and ctx.Err() when ctx ends first.
func (b *Backlog) Accept(ctx context.Context) (verbs.Request, error) {
	if b.stopped.Err() != nil {
		return nil, context.Cause(b.stopped)
	}
	select {
	case r := <-b.ready:
		return r, nil
	case <-b.stopped.Done():
		return nil, context.Cause(b.stopped)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Stop ends Accept. The cause is verbs.ErrClosed, or what has failed; the first
// call decides.
func (b *Backlog) Stop(cause error) { b.stop(cause) }

// Refuse rejects the requests left after Stop. An Accept in progress may still
// return one.
func (b *Backlog) Refuse() {
	for {
		select {
		case r := <-b.ready:
			_ = r.Reject(nil) // the peer may have left
		default:
			return
		}
	}
}
