package spin

import (
	"math/rand/v2"
	"os/exec"
	"runtime"
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
	for range 1<<maxMisses + 2*maxMisses {
		s.Poll(always)
	}
	if s.misses != 0 || s.hits < maxMisses {
		t.Errorf("%d misses, %d hits", s.misses, s.hits)
	}
}

// TestLossIsBounded has the polls that miss be bounded by those that hit, whatever the sequence of waits: the share of them that end
// soon is the row, and each has its waits come at random, in turn, and in runs.
func TestLossIsBounded(t *testing.T) {
	const waits = 1 << 13
	for percent := 0; percent <= 100; percent += 10 {
		random := rand.New(rand.NewPCG(1, uint64(percent)))
		for name, soon := range map[string]func(i int) bool{
			"random": func(int) bool { return random.IntN(100) < percent },
			"turns":  func(i int) bool { return i*percent/100 != (i+1)*percent/100 },
			"runs":   func(i int) bool { return i%1000 < 10*percent },
		} {
			s := Spin{idle: always, limit: time.Nanosecond}
			for i := range waits {
				s.Poll(func() bool { return soon(i) })
			}
			hits, misses := s.Counts()
			if most := hits + maxMisses + waits>>maxMisses; misses > most {
				t.Errorf("%d %% of waits end soon, %s: %d polls missed and %d hit, of %d waits", percent, name, misses, hits, waits)
			}
		}
	}
}

// TestBusyMachine has nothing polled where more processes run than there are processors.
func TestBusyMachine(t *testing.T) {
	if machine.off || machine.on {
		t.Skip("RDMAFS_SPIN or GOMAXPROCS=1 decides here")
	}
	for range 2*runtime.NumCPU() + 1 {
		busy := exec.Command("sh", "-c", "echo; i=0; while [ $i -lt 20000000 ]; do i=$((i+1)); done")
		out, err := busy.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		})
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	l := load{base: time.Now()}
	s := Spin{idle: l.idle}
	for range 1000 {
		s.Poll(func() bool { return false })
		l.next.Store(0) // each wait looks anew
	}
	if hits, misses := s.Counts(); hits+misses > 0 {
		t.Errorf("%d waits were polled", hits+misses)
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
