package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// What stands between these two lines of the page is the table's.
const (
	begin = "<!-- make bench-knfsd writes from here -->"
	end   = "<!-- to here -->"
)

// report prints the table and puts it into the page.
func report(r *compare.Results, o options, kernel string) error {
	table := fmt.Sprintf("%s, Linux %s, medians of %d rounds:\n\n%s", time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(kernel), o.rounds, markdown(r))
	fmt.Print(table)
	b, err := os.ReadFile(o.page)
	if err != nil {
		return err
	}
	page, err := replace(string(b), table)
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	return os.WriteFile(o.page, []byte(page), 0o644)
}

// replace puts table between the marks of page.
func replace(page, table string) (string, error) {
	head, rest, found := strings.Cut(page, begin+"\n")
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("no lines %q and %q", begin, end)
	}
	return head + begin + "\n" + table + end + tail, nil
}

// markdown is a row a workload. The last column, of one mount alone, shows what
// the emulated machine can do.
func markdown(r *compare.Results) string {
	var b strings.Builder
	b.WriteString("| workload | rdmafs ÷ Linux, RDMA | rdmafs ÷ Linux, TCP | rdmafs, RDMA ÷ TCP | Linux, RDMA |\n|---|---|---|---|---|\n")
	for _, m := range r.Metrics {
		fmt.Fprintf(&b, "| %s | **%.2f** | %.2f | %.2f | %.0f %s |\n", m.Name,
			r.Ratio(m.Name, rdmafsRDMA, linuxRDMA), r.Ratio(m.Name, rdmafsTCP, linuxTCP), r.Ratio(m.Name, rdmafsRDMA, rdmafsTCP),
			r.Median(m.Name, linuxRDMA), m.Unit)
	}
	return b.String()
}
