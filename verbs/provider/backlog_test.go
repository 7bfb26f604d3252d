package provider

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
)

// fakeRequest counts how often it was rejected.
type fakeRequest struct {
	verbs.Request
	rejected int
}

func (r *fakeRequest) Reject([]byte) error {
	r.rejected++
	return nil
}

// TestAcceptReturnsTheCause covers an Accept that waits and one that comes after
// Stop, even if a request is left.
func TestAcceptReturnsTheCause(t *testing.T) {
	for _, cause := range []error{verbs.ErrClosed, errors.New("device gone")} {
		b := NewBacklog(1)
		waiting := make(chan error)
		go func() {
			_, err := b.Accept(t.Context())
			waiting <- err
		}()
		b.Stop(cause)
		b.Stop(errors.New("too late"))
		if err := <-waiting; err != cause {
			t.Errorf("%v, want %v", err, cause)
		}
		if !b.Add(&fakeRequest{}) {
			t.Error("no room for one request")
		}
		if _, err := b.Accept(t.Context()); err != cause {
			t.Errorf("%v, want %v", err, cause)
		}
	}
}

func TestAcceptEndsWithContext(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewBacklog(0).Accept(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestBacklogIsBoundedAndRefused(t *testing.T) {
	b := NewBacklog(2)
	rs := []*fakeRequest{{}, {}, {}}
	for i, r := range rs {
		if got := b.Add(r); got != (i < b.Size()) {
			t.Errorf("request %d added: %v", i, got)
		}
	}
	if r, err := b.Accept(t.Context()); r != rs[0] || err != nil {
		t.Errorf("accepted %v, %v", r, err)
	}
	b.Stop(verbs.ErrClosed)
	b.Refuse()
	for i, r := range rs {
		if want := i == 1; (r.rejected == 1) != want || r.rejected > 1 {
			t.Errorf("request %d was rejected %d times", i, r.rejected)
		}
	}
}
