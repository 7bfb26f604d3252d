// Package backlog is how every provider's listener hands requests to Accept, and
// what it does with those left at its end. A listener has a channel of
// requests that are ready, and one that is closed when it stops.
package backlog

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs"
)

// Take waits for the next request. It returns verbs.ErrClosed once stop is closed,
// and ctx.Err() when ctx ends first.
func Take[R any](ctx context.Context, ready <-chan R, stop <-chan struct{}) (r R, err error) {
	select {
	case <-stop:
		return r, verbs.ErrClosed
	default:
	}
	select {
	case r = <-ready:
		return r, nil
	case <-stop:
		return r, verbs.ErrClosed
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
