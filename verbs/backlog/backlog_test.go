package backlog

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
)

// TestTakeTellsTheCause: who waits, and who comes later, though a request is left.
func TestTakeTellsTheCause(t *testing.T) {
	for _, cause := range []error{verbs.ErrClosed, errors.New("device gone")} {
		stop, end := context.WithCancelCause(context.Background())
		ready := make(chan int, 1)
		waiting := make(chan error)
		go func() {
			_, err := Take(t.Context(), ready, stop)
			waiting <- err
		}()
		end(cause)
		end(errors.New("too late"))
		if err := <-waiting; err != cause {
			t.Errorf("%v, want %v", err, cause)
		}
		ready <- 1
		if _, err := Take(t.Context(), ready, stop); err != cause {
			t.Errorf("%v, want %v", err, cause)
		}
	}
}

func TestTakeEndsWithContext(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Take(gone, make(chan int), context.Background()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
