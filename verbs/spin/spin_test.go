package spin

import (
	"testing"
	"time"
)

func always() bool { return true }

// TestHits has waits that end soon be polled each time.
func TestHits(t *testing.T) {
	s := Spin{idle: always}
	for range 100 {
		tries := 0
		if !s.Poll(func() bool { tries++; return tries == 3 }) {
			// The machine was busy for as long as a wait is polled.
			s.skip, s.misses = 0, 0
		}
	}
	if s.polled != 100 || s.hits == 0 {
		t.Errorf("%d polled, %d hits", s.polled, s.hits)
	}
}

// TestMisses has a connection that nothing comes on be polled less and less, and again once it pays.
func TestMisses(t *testing.T) {
	s := Spin{idle: always}
	for range 1 << 14 {
		if s.Poll(func() bool { return false }) {
			t.Fatal("a hit")
		}
	}
	if s.polled > 32 {
		t.Errorf("polled %d times", s.polled)
	}
	for range 1 << (maxMisses + 1) {
		s.Poll(always)
	}
	if s.misses != 0 || s.hits < 1<<maxMisses {
		t.Errorf("%d misses, %d hits", s.misses, s.hits)
	}
}

// TestBusy has nothing polled while no processor is idle.
func TestBusy(t *testing.T) {
	s := Spin{idle: func() bool { return false }}
	if s.Poll(func() bool { t.Error("polled"); return true }) {
		t.Error("a hit")
	}
}

// TestCrowded has a goroutine that lost its processor poll no more for a while.
func TestCrowded(t *testing.T) {
	l := load{base: time.Now()}
	l.next.Store(1 << 62)
	l.spare.Store(true)
	if !l.idle() {
		t.Fatal("not idle")
	}
	l.crowded()
	if l.spare.Load() {
		t.Error("idle")
	}
}

// TestLoadavg parses what Linux says, and what it might.
func TestLoadavg(t *testing.T) {
	for in, want := range map[string]int{
		"0.20 0.18 0.12 1/80 11206\n": 1, "10.20 0.18 0.12 17/1080 11206\n": 17,
		"": 9, "1 2 3": 9, "1 2 3 x/7 8": 9, "1 2 3 4": 4,
	} {
		if got := parse([]byte(in), 9); got != want {
			t.Errorf("%q: %d, not %d", in, got, want)
		}
	}
	var l load
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.running(); n < 1 || n >= 1<<30 {
		t.Errorf("%d tasks run here", n)
	}
}
