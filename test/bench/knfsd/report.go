package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// What stands between these two lines of the page is the table's.
const (
	begin = "<!-- make bench-knfsd writes from here -->"
	end   = "<!-- to here -->"
)

// report prints the table and puts it into the page.
func report(r *compare.Results, o options, kernel string) error {
	load, err := hostLoad()
	if err != nil {
		return err
	}
	table := fmt.Sprintf("%s, Linux %s, medians of %d rounds, on a host of %d processors with a load of %s:\n\n%s",
		time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(kernel), o.rounds, runtime.NumCPU(), load, markdown(r))
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

// hostLoad is the average of the last 15 minutes. The guest keeps two processors
// busy: much more than 2 says that others were in the way.
func hostLoad() (string, error) {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	if f := strings.Fields(string(b)); len(f) > 2 {
		return f[2], nil
	}
	return "", fmt.Errorf("/proc/loadavg says %q", b)
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

// markdown is a row a workload. The last columns show what the emulated machine can do
// with one mount alone, and how many calls to the server an operation, or 1 MiB, took
// rdmafs and Linux by version 3 and by version 4.2.
func markdown(r *compare.Results) string {
	var b strings.Builder
	b.WriteString("| workload | rdmafs ÷ Linux, RDMA | rdmafs ÷ Linux, TCP | rdmafs, RDMA ÷ TCP | 4.2: rdmafs ÷ Linux, RDMA | rdmafs, RDMA, 4.2 ÷ 3 | Linux, RDMA | calls, rdmafs | calls, Linux | 4.2: calls, rdmafs | calls, Linux |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.Workloads {
		linux, ok := r.Rate(w.Name, linuxRDMA)
		if !ok {
			continue
		}
		ratio := func(system, base string) string {
			a, ok := r.Rate(w.Name, system)
			b, ok2 := r.Rate(w.Name, base)
			if !ok || !ok2 {
				return "–"
			}
			return fmt.Sprintf("%.2f", a.Mid/b.Mid)
		}
		calls := func(system string) string {
			if n, ok := r.Cost(workload.RPCs, w.Name, system); ok {
				return fmt.Sprintf("%.2f", n)
			}
			return "–"
		}
		fmt.Fprintf(&b, "| %s | **%s** | %s | %s | **%s** | %s | %.0f %s | %s | %s | %s | %s |\n", w.Name,
			ratio(rdmafsRDMA, linuxRDMA), ratio(rdmafsTCP, linuxTCP), ratio(rdmafsRDMA, rdmafsTCP),
			ratio(rdmafsRDMA4, linuxRDMA4), ratio(rdmafsRDMA4, rdmafsRDMA),
			linux.Mid, w.Unit, calls(rdmafsRDMA), calls(linuxRDMA), calls(rdmafsRDMA4), calls(linuxRDMA4))
	}
	return b.String()
}
