package compare

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rdmafs/rdmafs/internal/workload"
)

// Table is what is printed, as text or as Markdown.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

// Text prints the table for a terminal.
func (t *Table) Text(to io.Writer) error {
	fmt.Fprintf(to, "\n%s\n", t.Title)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// Markdown prints the table for a page.
func (t *Table) Markdown(to io.Writer) error {
	line := func(row []string) string { return "| " + strings.Join(row, " | ") + " |\n" }
	s := t.Title + ":\n\n" + line(t.Head) + strings.Repeat("|---", len(t.Head)) + "|\n"
	for _, row := range t.Rows {
		s += line(row)
	}
	_, err := io.WriteString(to, "\n"+s)
	return err
}

// missing is a cell without a value.
const missing = "–"

// number has three significant digits, or fewer of what is small.
func number(v float64) string {
	switch {
	case v > 0 && v < 0.1:
		return fmt.Sprintf("%.2g", v)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func ratio(s Spread, ok bool) string {
	if !ok {
		return missing
	}
	return fmt.Sprintf("%.2f", s.Mid)
}

// table has a row for each workload that has a value, with cells that row makes.
func (r *Results) table(title string, head []string, row func(w Workload) (cells []string, any bool)) *Table {
	t := &Table{Title: title, Head: append([]string{"workload"}, head...)}
	for _, w := range r.Workloads {
		if cells, any := row(w); any {
			t.Rows = append(t.Rows, append([]string{w.Name}, cells...))
		}
	}
	return t
}

// Pair is two systems of which one is divided by the other.
type Pair struct{ System, Base string }

// Tables are all that a run has to say; pairs are the ratios that are of interest.
func (r *Results) Tables(pairs []Pair) []*Table {
	rates := r.table("Median, and between which values half of the rounds were", append([]string{"unit"}, r.Systems...),
		func(w Workload) ([]string, bool) {
			cells, any := []string{w.Unit}, false
			for _, s := range r.Systems {
				v, ok := r.Rate(w.Name, s)
				cell := missing
				if ok {
					cell = fmt.Sprintf("%s (%s to %s)", number(v.Mid), number(v.Low), number(v.High))
				}
				cells, any = append(cells, cell), any || ok
			}
			return cells, any
		})
	all := []*Table{rates}
	var head []string
	for _, p := range pairs {
		head = append(head, p.System+" ÷ "+p.Base)
	}
	if len(pairs) > 0 {
		all = append(all, r.table("Ratios, median of the rounds'; above 1 is better", head, func(w Workload) ([]string, bool) {
			var cells []string
			any := false
			for _, p := range pairs {
				v, ok := r.Gain(w.Name, p.System, p.Base)
				cells, any = append(cells, ratio(v, ok)), any || ok
			}
			return cells, any
		}))
	}
	for _, k := range []workload.Kind{workload.RPCs, workload.Switches, workload.CPU} {
		if t := r.costs(k); len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	if len(r.Memory) > 0 {
		all = append(all, r.memory())
	}
	return all
}

// costs is the table of a kind of cost, of the systems for which it is known.
func (r *Results) costs(k workload.Kind) *Table {
	var systems []string
	for _, s := range r.Systems {
		for _, values := range r.Costs[k] {
			if len(values[s]) > 0 {
				systems = append(systems, s)
				break
			}
		}
	}
	title := map[workload.Kind]string{
		workload.RPCs:     "Calls to the server for an operation, or for 1 MiB",
		workload.Switches: "Context switches of the client's process for an operation, or for 1 MiB",
		workload.CPU:      "Processor time of the client's process: seconds for 100,000 operations, or for 1 GiB",
	}[k]
	return r.table(title, systems, func(w Workload) ([]string, bool) {
		var cells []string
		any := false
		for _, s := range systems {
			v, ok := r.Cost(k, w.Name, s)
			cells, any = append(cells, costCell(k, w, v, ok)), any || ok
		}
		return cells, any
	})
}

func costCell(k workload.Kind, w Workload, v float64, ok bool) string {
	switch {
	case !ok:
		return missing
	case k != workload.CPU:
		return number(v)
	case w.Bytes:
		return number(v * 1024 / 1e9)
	}
	return number(v * 100_000 / 1e9)
}

// tolerance is how much worse a row may be than before, and slightly how many more calls
// an operation may make besides, such as those of mounting.
const (
	tolerance = 0.05
	slightly  = 0.02
)

// Change is the table of two builds: a row a workload and mount, where before is how
// the mount of the earlier build is called. verdict counts the rows.
func (r *Results) Change(names []string, before func(name string) string) (t *Table, verdict string) {
	kinds := []workload.Kind{workload.RPCs, workload.Switches, workload.CPU}
	t = &Table{Title: "Two builds: gain is the median of the rounds' ratios",
		Head: []string{"workload", "mount", "unit", "before", "now", "gain", "half of the rounds", "",
			"calls/op", "now", "switches/op", "now", "CPU s", "now", "gain"}}
	worse, unsure, dearer := 0, 0, 0
	for _, w := range r.Workloads {
		for _, name := range names {
			old, ok1 := r.Rate(w.Name, before(name))
			now, ok2 := r.Rate(w.Name, name)
			if !ok1 || !ok2 {
				continue
			}
			row := []string{w.Name, name, w.Unit, number(old.Mid), number(now.Mid), missing, missing, ""}
			if g, ok := r.Gain(w.Name, name, before(name)); ok {
				row[5], row[6] = ratio(g, true), fmt.Sprintf("%.2f to %.2f", g.Low, g.High)
				switch {
				case g.Mid >= 1-tolerance:
				case g.High >= 1:
					unsure++
					row[7] = "perhaps worse"
				default:
					worse++
					row[7] = "worse"
				}
			}
			was, _ := r.Cost(workload.RPCs, w.Name, before(name))
			if calls, ok := r.Cost(workload.RPCs, w.Name, name); ok && calls > was*(1+tolerance) && calls-was > slightly {
				dearer++
				row[7] = strings.TrimSpace(row[7] + " more calls")
			}
			for _, k := range kinds {
				for _, s := range []string{before(name), name} {
					v, ok := r.Cost(k, w.Name, s)
					row = append(row, costCell(k, w, v, ok))
				}
			}
			row = append(row, ratio(r.CostGain(workload.CPU, w.Name, name, before(name))))
			t.Rows = append(t.Rows, row)
		}
	}
	return t, fmt.Sprintf("A gain above 1 is better, of processor time too. Of %d rows %d are worse by more than %.0f %%; "+
		"%d more are, but not in a quarter of the rounds or more. %d make more calls. CPU is the client's for 100,000 operations, or 1 GiB.",
		len(t.Rows), worse, 100*tolerance, unsure, dearer)
}
