package nfsclient

import (
	"context"
	"time"
)

// Pause waits until d has passed, or ctx ends: it then returns ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
