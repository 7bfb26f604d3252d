package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/bench/compare"
)

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		systems []string
		want    []compare.Pair
	}{
		{[]string{"iwarp", "tcp"}, nil},
		{[]string{"iwarp", loopc}, []compare.Pair{{System: "iwarp", Base: loopc}}},
		{[]string{"iwarp", "tcp", "tcp-4.2", "iwarp-4.2"}, []compare.Pair{{System: "tcp-4.2", Base: "tcp"}, {System: "iwarp-4.2", Base: "iwarp"}}},
		{[]string{ganesha, fuseNFS, loopc}, []compare.Pair{{System: ganesha, Base: loopc}, {System: fuseNFS, Base: loopc}, {System: ganesha, Base: fuseNFS}}},
	} {
		if got := pairs(c.systems, loopc); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %v, want %v", c.systems, got, c.want)
		}
	}
}

// TestScaleTable: a row has the medians of its rounds, its ratio to the first, and what
// an operation cost.
func TestScaleTable(t *testing.T) {
	result := func(count int) *workload.Result {
		return &workload.Result{Count: count, Elapsed: time.Second,
			Spent: workload.Spent{workload.RPCs: 2 * float64(count), workload.Switches: 3 * float64(count), workload.CPU: 5e8}}
	}
	curve := []*point{
		{x: "1", w: workload.ReadThreads(1), results: []*workload.Result{result(100), result(300), result(200)},
			memory: []memory{{1024, 2048}, {1024, 2048}, {1024, 3072}}},
		{x: "2", w: workload.ReadThreads(2), results: []*workload.Result{result(400)}, memory: []memory{{1024, 1024}}},
	}
	got := table("title", "threads", curve, memoryColumns...)
	want := [][]string{
		{"1", "200", "1.00", "2", "3", "0.50", "1.0", "2.0", "10486"},
		{"2", "400", "2.00", "2", "3", "0.50", "1.0", "1.0", "0"},
	}
	if !reflect.DeepEqual(got.Rows, want) || len(got.Head) != len(want[0]) {
		t.Errorf("%q, %q", got.Head, got.Rows)
	}
}
