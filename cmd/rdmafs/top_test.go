package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/status"
	"github.com/rdmafs/rdmafs/transport/account"
)

// sample is a mount that has made some calls, of a millisecond each, by an age.
func sample(dir string, calls uint64, age float64) listed {
	t := account.Times{SumNS: calls * 1e6, Buckets: []account.Bucket{{UpToNS: 1 << 20, Count: calls}}}
	r := status.Report{Age: age, Procedures: []account.Procedure{{Program: "NFS", Procedure: "READ", Calls: calls, Execution: t}}}
	r.PID, r.MountPoint, r.Calls.Calls, r.Calls.BytesReceived = 7, dir, calls, 1000*calls
	return listed{MountPoint: dir, PID: 7, State: "ok", report: r}
}

// TestTopRows: rates are of the time since the report before; mounts that are gone leave nothing behind.
func TestTopRows(t *testing.T) {
	before := make(map[string]status.Report)
	first := topRows([]listed{sample("/a", 100, 10), sample("/gone", 1, 1), {MountPoint: "/silent", State: stateStuck}}, before)
	if first[0].calls != 10 || first[0].bytes != 10000 || first[2].calls != 0 {
		t.Errorf("%+v", first)
	}
	again := topRows([]listed{sample("/a", 150, 12), sample("/b", 60, 1)}, before)
	if again[0].calls != 25 || again[0].mean != 1 || again[0].longest < 1 || again[0].frequent != "READ 25/s" || len(before) != 2 {
		t.Errorf("%+v, %d", again, len(before))
	}
	slices.SortStableFunc(again, topOrders["calls"])
	if again[0].mount.MountPoint != "/b" {
		t.Errorf("%+v", again)
	}
	var b bytes.Buffer
	if err := printTop(&b, []topRow{{mount: listed{MountPoint: "/\x1b[2J\n", State: "\u202e"}}}); err != nil || strings.ContainsAny(b.String(), "\x1b\u202e") {
		t.Errorf("%q, %v", b.String(), err)
	}
}
