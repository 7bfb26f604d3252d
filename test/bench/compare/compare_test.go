package compare

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/workload"
)

// tiny is a run that takes no time.
func tiny(t *testing.T, names string) Config {
	return Config{
		Workloads: workload.Matching(regexp.MustCompile(names)), Rounds: 2, Scratch: t.TempDir(),
		Size:     workload.Size{FileMiB: 1, Files: 3, ListFiles: 4, TreeFiles: 5, Random: 5 * time.Millisecond},
		Progress: func(line string) { t.Log(line) },
	}
}

// TestRun takes a plain directory for two mounts, of which one may be prepared behind
// its back.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var turns []string
	system := func(name, data string) *System {
		return &System{Name: name, Dir: dir, Data: data,
			Mount:   func(string) error { turns = append(turns, name); return nil },
			Unmount: func(string) error { turns = append(turns, "-"+name); return nil },
			PID:     func(string) (int, error) { return os.Getpid(), nil },
			Calls:   func(string) (uint64, error) { return 1, nil },
		}
	}
	cfg := tiny(t, ".")
	r, err := Run(t.Context(), []*System{system("a", dir), system("b", "")}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Workloads {
		for _, s := range r.Systems {
			if _, skipped := r.Skipped[w.Name][s]; skipped {
				continue
			}
			v, ok := r.Rate(w.Name, s)
			calls, counted := r.Cost(workload.RPCs, w.Name, s)
			if !ok || v.Low <= 0 || len(r.Rates[w.Name][s]) != cfg.Rounds || !counted || calls != 0 {
				t.Errorf("%s of %s: %v, %v calls", w.Name, s, r.Rates[w.Name][s], calls)
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
	var text strings.Builder
	for _, table := range r.Tables([]Pair{{"a", "b"}}) {
		if err := errors.Join(table.Text(&text), table.Markdown(&text)); err != nil {
			t.Fatal(err)
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Head) {
				t.Errorf("%s: row %q, head %q", table.Title, row, table.Head)
			}
		}
	}
	if !strings.Contains(text.String(), "a ÷ b") {
		t.Error(text.String())
	}
}

func TestFailureUnmounts(t *testing.T) {
	boom := errors.New("boom")
	mounted := 0
	s := &System{Name: "s", Dir: filepath.Join(t.TempDir(), "missing"),
		Mount:   func(string) error { mounted++; return nil },
		Unmount: func(string) error { mounted--; return boom },
	}
	_, err := Run(t.Context(), []*System{s}, tiny(t, "^create$"))
	if !errors.Is(err, os.ErrNotExist) || !errors.Is(err, boom) || mounted != 0 {
		t.Errorf("%v, mounted %d times more than unmounted", err, mounted)
	}
}

// TestSkipped: what cannot be run on a system leaves a reason, and the others go on.
func TestSkipped(t *testing.T) {
	dir := t.TempDir()
	nothing := func(string) error { return nil }
	cfg := tiny(t, "^(git clone|create)$")
	cfg.Scratch = ""
	r, err := Run(t.Context(), []*System{{Name: "s", Dir: dir, Data: dir, Mount: nothing, Unmount: nothing}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Rate("git clone", "s"); ok || r.Skipped["git clone"]["s"] == "" {
		t.Errorf("%v", r.Skipped)
	}
	if _, ok := r.Rate("create", "s"); !ok || len(r.Costs) > 0 {
		t.Errorf("%v, %v", r.Rates, r.Costs)
	}
}

func TestGain(t *testing.T) {
	for _, c := range []struct {
		now, before []float64
		want        Spread
		ok          bool
	}{
		{[]float64{110, 180, 130}, []float64{100, 200, 100}, Spread{0.9, 1.1, 1.3}, true},
		{[]float64{400, 100, 300, 200}, []float64{100, 100, 100, 100}, Spread{2, 2.5, 3}, true},
		{[]float64{1}, []float64{0}, Spread{}, false},
		{[]float64{1}, nil, Spread{}, false},
		{nil, nil, Spread{}, false},
	} {
		r := &Results{Rates: map[string]map[string][]float64{"w": {"now": c.now, "before": c.before}},
			Costs: map[workload.Kind]map[string]map[string][]float64{workload.CPU: {"w": {"now": c.before, "before": c.now}}}}
		if got, ok := r.Gain("w", "now", "before"); got != c.want || ok != c.ok {
			t.Errorf("%v after %v: %v, %v", c.now, c.before, got, ok)
		}
		if got, ok := r.CostGain(workload.CPU, "w", "now", "before"); got != c.want || ok != c.ok {
			t.Errorf("cost %v after %v: %v, %v", c.before, c.now, got, ok)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want Spread
	}{
		{[]float64{3, 1, 2}, Spread{1, 2, 3}}, {[]float64{4, 1, 2, 3}, Spread{2, 2.5, 3}},
		{[]float64{7}, Spread{7, 7, 7}}, {[]float64{5, 1, 4, 2, 3}, Spread{2, 3, 4}},
	} {
		if got, ok := spread(c.v); got != c.want || !ok {
			t.Errorf("%v: %v, want %v", c.v, got, c.want)
		}
	}
}

// TestChange: the verdict counts what is worse, and what may be.
func TestChange(t *testing.T) {
	names := []string{"better", "worse", "unsure", "absent"}
	r := &Results{Rates: map[string]map[string][]float64{
		"better": {"m": {2, 2, 2}, "m before": {1, 1, 1}},
		"worse":  {"m": {1, 1, 1}, "m before": {2, 2, 2}},
		"unsure": {"m": {1, 1, 4}, "m before": {2, 2, 2}},
	}, Costs: map[workload.Kind]map[string]map[string][]float64{
		workload.RPCs: {"better": {"m": {1}, "m before": {2}}, "worse": {"m": {3}, "m before": {2}}, "unsure": {"m": {0.01}, "m before": {0.001}}},
		workload.CPU:  {"better": {"m": {1e9, 1e9, 1e9}, "m before": {2e9, 2e9, 2e9}}},
	}}
	for _, n := range names {
		r.Workloads = append(r.Workloads, Workload{Name: n, Unit: "files/s"})
	}
	table, verdict := r.Change([]string{"m"}, func(name string) string { return name + " before" })
	if want := []string{"better", "m", "files/s", "1.00", "2.00", "2.00", "2.00 to 2.00", "",
		"2.00", "1.00", "–", "–", "200000", "100000", "2.00"}; !reflect.DeepEqual(table.Rows[0], want) {
		t.Errorf("%q, want %q", table.Rows[0], want)
	}
	if len(table.Rows) != 3 || table.Rows[1][7] != "worse more calls" || table.Rows[2][7] != "perhaps worse" {
		t.Errorf("%q", table.Rows)
	}
	if !strings.Contains(verdict, "Of 3 rows 1 are worse by more than 5 %; 1 more are") || !strings.Contains(verdict, " 1 make more calls") {
		t.Error(verdict)
	}
}
