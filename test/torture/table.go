package torture

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"text/tabwriter"
)

// sum is a field of the table.
type sum struct{ cells, ops, injected, reports, lost, failed int }

func (s *sum) add(r Result) {
	s.cells++
	s.ops += r.Ops
	s.injected += r.Injected
	s.reports += r.Reports
	s.lost += r.Lost
	if len(r.Failures) > 0 {
		s.failed++
	}
}

// table has the results of all cells.
type table struct {
	mu     sync.Mutex
	fields map[[2]string]*sum
	rows   map[string]*sum
	failed int
	all    sum
	high   int
	again  []string
}

func newTable() *table { return &table{fields: map[[2]string]*sum{}, rows: map[string]*sum{}} }

// take adds a result, and prints a failure at once.
func (t *table) take(p *plan, r Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := [2]string{r.Fault, r.Kind}
	if t.fields[at] == nil {
		t.fields[at] = &sum{}
	}
	if t.rows[r.Fault] == nil {
		t.rows[r.Fault] = &sum{}
	}
	t.fields[at].add(r)
	t.rows[r.Fault].add(r)
	t.all.add(r)
	t.high = max(t.high, r.HighWater)
	if p.verbose {
		fmt.Printf("%-45s %-3s %5.1f s, %d ops, %d injected, %d reports %v, %d lost, %d MiB\n", r.Cell, r.Vers, r.Seconds, r.Ops, r.Injected, r.Reports, r.Errors, r.Lost, r.HighWater>>10)
	}
	if len(r.Failures) == 0 {
		return
	}
	t.failed++
	long := ""
	if r.Long {
		long = " TORTURE_LONG=1"
	}
	again := fmt.Sprintf("TORTURE_SEED=%d TORTURE_VERS=%s%s TORTURE_CELLS='^%s$' make torture", r.Seed, r.Vers, long, r.Cell)
	t.again = append(t.again, again)
	fmt.Printf("FAILED %s, seed %d (%s)\n", r.Cell, r.Seed, again)
	for _, f := range r.Failures {
		fmt.Printf("    %s\n", strings.ReplaceAll(strings.TrimSpace(f), "\n", "\n    "))
	}
	if r.Log != "" && os.MkdirAll(p.out, 0o755) == nil {
		name := filepath.Join(p.out, strings.NewReplacer("/", "_", " ", "-").Replace(r.Cell.String())+fmt.Sprintf("-%d.log", r.Seed))
		if os.WriteFile(name, []byte(r.Log), 0o644) == nil {
			fmt.Printf("    what was seen and said: %s\n", name)
		}
	}
}

// print prints the table: for each fault and kind operations, faults injected,
// errors reported, bytes or names lost.
func (t *table) print(out io.Writer, p *plan, skipped map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 1, 2, ' ', 0)
	fmt.Fprint(w, "\nfault")
	for _, k := range kinds {
		fmt.Fprint(w, "\t", k)
	}
	fmt.Fprint(w, "\tall\n")
	show := func(s *sum) string {
		if s == nil {
			return "."
		}
		text := fmt.Sprintf("%d/%d/%d/%d", s.ops, s.injected, s.reports, s.lost)
		if s.failed > 0 {
			text += "!"
		}
		return text
	}
	for _, f := range order {
		if t.rows[f] == nil {
			continue
		}
		fmt.Fprint(w, f)
		for _, k := range kinds {
			fmt.Fprint(w, "\t", show(t.fields[[2]string{f, k}]))
		}
		fmt.Fprint(w, "\t", show(t.rows[f]), "\n")
	}
	w.Flush()
	fmt.Fprintln(out, "\noperations/faults injected/errors reported/bytes or names lost; ! has failed, . was not run")
	reasons := map[string]int{}
	for cell, why := range skipped {
		if p.cells.MatchString(cell) {
			fault, _, _ := strings.Cut(cell, "/")
			reasons[fault+": "+why]++
		}
	}
	var lines []string
	for why, n := range reasons {
		lines = append(lines, fmt.Sprintf("left out, %d cells: %s", n, why))
	}
	sort.Strings(lines)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	fmt.Fprintf(out, "seed %d: %d cells, %d operations, %d faults, %d errors reported, %d lost, daemons up to %d MiB, %d cells failed\n",
		p.seed, t.all.cells, t.all.ops, t.all.injected, t.all.reports, t.all.lost, t.high>>10, t.failed)
	for _, a := range t.again {
		fmt.Fprintln(out, "again:", a)
	}
}
