package main

import (
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/bench/compare"
)

func TestReport(t *testing.T) {
	r := &compare.Results{
		Workloads: []compare.Workload{{Name: "reading", Unit: "MiB/s"}, {Name: "skipped"}},
		Rates: map[string]map[string][]float64{"reading": {
			rdmafsRDMA: {30, 10, 20}, linuxRDMA: {40, 50}, rdmafsTCP: {80}, linuxTCP: {160}, rdmafsRDMA4: {30}, linuxRDMA4: {60},
		}},
		Costs: map[workload.Kind]map[string]map[string][]float64{workload.RPCs: {"reading": {rdmafsRDMA: {1, 2, 3}, linuxRDMA4: {4}}}},
	}
	table := markdown(r)
	if row := "| reading | **0.44** | 0.50 | 0.25 | **0.50** | 1.50 | 45 MiB/s | 2.00 | – | – | 4.00 |\n"; !strings.HasSuffix(table, row) {
		t.Errorf("table %q does not end in %q", table, row)
	}
	page, err := replace("before\n"+begin+"\nold\n"+end+"\nafter\n", table)
	if want := "before\n" + begin + "\n" + table + end + "\nafter\n"; err != nil || page != want {
		t.Errorf("page %q, %v; want %q", page, err, want)
	}
	for _, bad := range []string{"", begin + "\n", end, end + "\n" + begin + "\n"} {
		if _, err := replace(bad, table); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}
