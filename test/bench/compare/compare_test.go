package compare

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRun takes a plain directory for two mounts.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "probe"), os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o600)
	if errors.Is(err, unix.EINVAL) {
		t.Skip("the temporary directory does not take direct I/O")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	var turns []string
	system := func(name string) *System {
		return &System{Name: name, Dir: dir,
			Mount:   func(string) error { turns = append(turns, name); return nil },
			Unmount: func(string) error { turns = append(turns, "-"+name); return nil },
		}
	}
	size := Size{FileMiB: 1, SmallFiles: 3, ListFiles: 4, Random: 10 * time.Millisecond}
	r, err := Run([]*System{system("a"), system("b")}, 2, size, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Metrics {
		for _, s := range []string{"a", "b"} {
			v := r.Values[m.Name][s]
			if len(v) != 2 || slices.Min(v) <= 0 {
				t.Errorf("%s of %s: %v", m.Name, s, v)
			}
		}
	}
	open := ""
	for _, turn := range turns {
		switch {
		case open == "":
			open = turn
		case turn == "-"+open:
			open = ""
		default:
			t.Fatalf("%s while %s is mounted", turn, open)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "small")); err != nil || len(left) > 0 {
		t.Errorf("%d small files left, %v", len(left), err)
	}
}

func TestFailureUnmounts(t *testing.T) {
	boom := errors.New("boom")
	mounted := 0
	s := &System{Name: "s", Dir: filepath.Join(t.TempDir(), "missing"),
		Mount:   func(string) error { mounted++; return nil },
		Unmount: func(string) error { mounted--; return boom },
	}
	_, err := Run([]*System{s}, 1, Size{FileMiB: 1}, func(line string) { t.Log(line) })
	if !errors.Is(err, os.ErrNotExist) || !errors.Is(err, boom) || mounted != 0 {
		t.Errorf("%v, mounted %d times more than unmounted", err, mounted)
	}
}

func TestGain(t *testing.T) {
	r := &Results{Values: map[string]map[string][]float64{
		"rate": {"old": {100, 200, 100}, "new": {110, 180, 130}},
		"cost": {"old": {100, 200, 100}, "new": {200, 200, 50}},
		"four": {"old": {100, 100, 100, 100}, "new": {400, 100, 300, 200}},
		"none": {"old": {0}, "new": {1}},
	}}
	for _, c := range []struct {
		m              Metric
		mid, low, high float64
		ok             bool
	}{
		{Metric{Name: "rate"}, 1.1, 0.9, 1.3, true},
		{Metric{Name: "cost", Cost: true}, 1, 0.5, 2, true},
		{Metric{Name: "four"}, 2.5, 2, 3, true},
		{Metric{Name: "none"}, 0, 0, 0, false},
	} {
		mid, low, high, ok := r.Gain(c.m, "new", "old")
		if mid != c.mid || low != c.low || high != c.high || ok != c.ok {
			t.Errorf("%s: %v, %v to %v, %v", c.m.Name, mid, low, high, ok)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}, {[]float64{7}, 7}} {
		if got := median(c.v); got != c.want {
			t.Errorf("%v: %v, want %v", c.v, got, c.want)
		}
	}
}
