package stall

import (
	"context"
	"testing"
	"time"
)

// TestEnds sets deadlines: when one that is not cleared has passed, the connection is ended, and not for those that are.
func TestEnds(t *testing.T) {
	ended := make(chan struct{}, 1)
	w := New(time.Hour, func() { ended <- struct{}{} })
	defer w.Stop()
	var cleared, later, near Deadline
	for _, d := range []*Deadline{&cleared, &later, &near} {
		w.Add(d)
	}
	w.Set(t.Context(), &later)
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	w.Set(over, &cleared)
	cleared.Clear()
	w.look() // as the timer would
	select {
	case <-ended:
		t.Error("ended for a deadline that is cleared, or not over")
	default:
	}
	if at := w.next.Load(); at != later.at.Load() {
		t.Errorf("looks again at %d, want %d", at, later.at.Load())
	}
	w.Set(over, &near) // which is sooner than the timer would look
	<-ended
}

// TestIdle: a watch without deadlines that are set does not look.
func TestIdle(t *testing.T) {
	w := New(time.Hour, func() { t.Error("ended") })
	defer w.Stop()
	var d Deadline
	w.Add(&d)
	w.Set(t.Context(), &d)
	d.Clear()
	w.look()
	if at := w.next.Load(); at != 0 {
		t.Errorf("looks again at %d", at)
	}
}
