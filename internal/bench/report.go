package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/workload"
)

// Report is what "rdmafs bench --json" prints.
type Report struct {
	Used
	Seconds float64  `json:"seconds"` // that it took
	Results []Result `json:"results"`
	Hints   []string `json:"hints"`
}

// Result is that of one workload.
type Result struct {
	Workload string  `json:"workload"`
	Unit     string  `json:"unit"` // of Rate
	Rate     float64 `json:"rate,omitempty"`
	Count    int     `json:"count,omitempty"` // operations, or MiB
	Seconds  float64 `json:"seconds,omitempty"`
	// Of an operation, or of 1 MiB of a workload in MiB/s. Those that nobody knows
	// are left away.
	Median   *float64 `json:"median_microseconds,omitempty"`
	Calls    *float64 `json:"calls,omitempty"` // to the server
	CPU      *float64 `json:"processor_microseconds,omitempty"`
	Switches *float64 `json:"context_switches,omitempty"`
	Skipped  string   `json:"skipped,omitempty"` // why there is nothing of this
}

func result(w *workload.Workload, res *workload.Result) Result {
	r := Result{Workload: w.Name, Unit: w.Unit, Rate: res.Rate(), Count: res.Count, Seconds: res.Elapsed.Seconds()}
	if n := len(res.Latencies); n > 0 {
		us := float64(res.Latencies[n/2]) / float64(time.Microsecond)
		r.Median = &us
	}
	for k, to := range map[workload.Kind]**float64{workload.RPCs: &r.Calls, workload.CPU: &r.CPU, workload.Switches: &r.Switches} {
		if v, ok := res.Per(k); ok {
			if k == workload.CPU {
				v /= float64(time.Microsecond)
			}
			*to = &v
		}
	}
	return r
}

// Print prints the report for people.
func Print(to io.Writer, r *Report) error {
	what := map[Way]string{
		Directory: "a directory that was there",
		Mount:     "mounted for the time",
		Library:   "without FUSE",
	}[r.Way]
	plain.Fprintf(to, "%s: %s", r.Target, what)
	if r.Type != "" {
		plain.Fprintf(to, ", a mount of %s, type %s", r.Source, r.Type)
	}
	if r.Transport != "" {
		plain.Fprintf(to, ", %s to %s, NFS version %s", r.Transport, r.Server, r.Version)
	}
	plain.Fprintf(to, "\n\n")
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	plain.Fprintf(w, "workload\tin a second\t\tmedian of one\tcalls each\tprocessor time each\n")
	for _, s := range r.Results {
		if s.Skipped != "" {
			plain.Fprintf(w, "%s\tleft out\t%s\n", s.Workload, s.Skipped)
			continue
		}
		each := ""
		if s.Unit == "MiB/s" {
			each = " /MiB"
		}
		plain.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Workload, number(&s.Rate), unit(s.Unit),
			with(s.Median, " µs"), with(s.Calls, each), with(s.CPU, " µs"+each))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	plain.Fprintf(to, "\n")
	for _, h := range r.Hints {
		plain.Fprintf(to, "%s\n", h)
	}
	plain.Fprintf(to, "It took %.0f s.\n", r.Seconds)
	return nil
}

// unit is what stands behind a rate "in a second".
func unit(s string) string {
	switch s {
	case "MiB/s":
		return "MiB"
	case "IOPS":
		return "requests"
	}
	return "files"
}

func with(v *float64, unit string) string {
	if v == nil {
		return "–"
	}
	return number(v) + unit
}

// number has three significant digits, or fewer of what is small.
func number(v *float64) string {
	switch {
	case *v > 0 && *v < 0.1:
		return fmt.Sprintf("%.2g", *v)
	case *v >= 100:
		return fmt.Sprintf("%.0f", *v)
	case *v >= 10:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.2f", *v)
}
