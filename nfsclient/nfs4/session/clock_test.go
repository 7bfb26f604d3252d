package session

import (
	"testing"
	"time"
)

// TestRealClock: it is the wall's, as far as that was not set, but for the monotonic clock, which stands still
// while a host is suspended.
func TestRealClock(t *testing.T) {
	a := realClock{}.Now()
	b := realClock{}.Now()
	if d := time.Since(a.Local()).Abs(); d > 10*time.Second {
		t.Errorf("it is %v from the wall's", d)
	}
	if b.Before(a) || b.Sub(a) > 10*time.Second {
		t.Errorf("%v, and then %v", a, b)
	}
	if a != a.Round(0) {
		t.Error("it has the monotonic clock")
	}
	if sinceBoot() <= 0 {
		t.Error("the time since the start of the host is not known")
	}
}
