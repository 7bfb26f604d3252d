package bench

import (
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/internal/plot"
)

// Page is the report as a page with plots.
func Page(r *Report) *plot.Page {
	what := map[Way]string{Directory: "a directory that was there", Mount: "mounted for the time", Library: "without FUSE"}[r.Way]
	notes := []string{fmt.Sprintf("%s: %s. It took %.0f s.", r.Target, what, r.Seconds)}
	if r.Type != "" {
		notes = append(notes, fmt.Sprintf("A mount of %s, type %s.", r.Source, r.Type))
	}
	if r.Transport != "" {
		notes = append(notes, fmt.Sprintf("%s to %s, NFS version %s.", r.Transport, r.Server, r.Version))
	}
	var rates []plot.Plot
	var units []string
	bars := make(map[string][]plot.Bar)
	medians := plot.Bars{Title: "Median of one operation", Unit: "µs"}
	table := plot.Table{Head: []string{"workload", "in a second", "", "median of one", "calls each", "processor time each"}}
	for k := range r.Results {
		s := &r.Results[k]
		if s.Skipped != "" {
			table.Rows = append(table.Rows, []string{s.Workload, "left out", s.Skipped, "", "", ""})
			continue
		}
		name := unit(s.Unit)
		if bars[name] == nil {
			units = append(units, name)
		}
		bars[name] = append(bars[name], plot.Bar{Name: s.Workload, Value: s.Rate})
		if s.Median != nil {
			medians.Bars = append(medians.Bars, plot.Bar{Name: s.Workload, Value: *s.Median})
		}
		each := ""
		if s.Unit == "MiB/s" {
			each = " /MiB"
		}
		table.Rows = append(table.Rows, []string{s.Workload, number(&s.Rate), name, with(s.Median, " µs"), with(s.Calls, each), with(s.CPU, " µs"+each)})
	}
	for _, name := range units {
		rates = append(rates, plot.Bars{Title: "Done in a second", Unit: name, Bars: bars[name]})
	}
	if len(medians.Bars) > 0 {
		rates = append(rates, medians)
	}
	return &plot.Page{Title: "rdmafs bench " + r.Target, Made: time.Now(), Sections: []plot.Section{
		{Heading: "What was measured", Notes: append(notes, r.Hints...)},
		{Heading: "Workloads", Plots: rates, Tables: []plot.Table{table}},
	}}
}
