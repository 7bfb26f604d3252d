package turn

import (
	"context"
	"sync"
	"testing"
	"time"
)

// seenContext says when somebody waits for its end. It is not to be used without mu: its caller
// takes mu to forget it, and may use it for something else then.
type seenContext struct {
	context.Context
	seen chan struct{}
	t    *testing.T
	mu   *sync.Mutex
}

func (c seenContext) held() {
	if c.mu.TryLock() {
		c.mu.Unlock()
		c.t.Error("the context of a leader is used without the lock")
	}
}

func (c seenContext) Err() error {
	c.held()
	return c.Context.Err()
}

func (c seenContext) Done() <-chan struct{} {
	c.held()
	select {
	case c.seen <- struct{}{}:
	default:
	}
	return c.Context.Done()
}

// TestLongWait has a leader wait for long: the attendant waits for the end of its context instead of looking often, and
// notices it, with whatever time there is to its next look.
func TestLongWait(t *testing.T) {
	w := newWire(t, 1)
	w.turn.tick = time.Millisecond
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.runAttendant()
	}()
	c := &w.callers[0]
	for range 3 { // the second and the third wait with contexts of their own
		seen := make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		w.mu.Lock()
		c.Init(seenContext{ctx, seen, t, w.turn.mu})
		c.waits = true // the attendant gives up the turn when it has received something for it
		w.mu.Unlock()
		for !w.turn.take(&c.Waiter) { // the attendant may have the turn
			w.replies <- 0
		}
		<-seen
		cancel()
		<-w.woken
		w.mu.Lock()
		c.Clear()
		w.mu.Unlock()
		w.turn.Leave(&c.Waiter)
	}
	close(w.stop)
	<-done
}
