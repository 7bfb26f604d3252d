// Package backlog is how every provider's listener hands requests to Accept, and
// what it does with those left at its end. A listener has a channel of
// requests that are ready, and a context that ends when it stops: the cause is what
// Accept then returns, verbs.ErrClosed or what has failed.
package backlog

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs"
)

// Take waits for the next request. It returns the cause once stop has ended, and
// ctx.Err() when ctx ends first.
func Take[R any](ctx context.Context, ready <-chan R, stop context.Context) (r R, err error) {
	if stop.Err() != nil {
		return r, context.Cause(stop)
	}
	select {
	case r = <-ready:
		return r, nil
	case <-stop.Done():
		return r, context.Cause(stop)
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

// Refuse rejects what was not taken. A Take under way may get one, too.
func Refuse[R verbs.Request](ready <-chan R) {
	for {
		select {
		case r := <-ready:
			_ = r.Reject(nil) // the peer may have left
		default:
			return
		}
	}
}
