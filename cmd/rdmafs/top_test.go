package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestRecording: of what top sees a page is made; the first report is of the time since the mount and
// is left out, and a long recording does not grow.
func TestRecording(t *testing.T) {
	before, begin := make(map[string]status.Report), time.Unix(1000, 0)
	r := &recording{begin: begin}
	const rounds = 3 * maxMoments
	for k := range uint64(rounds + 1) {
		r.add(topRows([]listed{sample("/<a>", 100+7*k, 10+float64(k)), {MountPoint: "/silent", State: stateStuck}}, before), begin.Add(time.Duration(k)*time.Second))
	}
	m := r.mounts[0]
	var calls, seconds float64
	for _, o := range m.moments {
		calls += o.calls
		seconds += o.seconds
	}
	if len(r.mounts) != 1 || len(m.moments) >= maxMoments || calls != 7*rounds || math.Abs(seconds-rounds) > 1e-6 || m.procedures[0].Calls != 7*rounds {
		t.Errorf("%d mounts, %d moments, %v calls in %v s, %+v", len(r.mounts), len(m.moments), calls, seconds, m.procedures)
	}
	if n := m.procedures[0].Execution.Count(); n != 7*rounds {
		t.Errorf("%d times", n)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	p, err := newPageFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(r.page(begin.Add(rounds * time.Second))); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil || strings.Count(string(b), "<svg") != 6 || strings.Contains(string(b), "<a>") || !strings.Contains(string(b), "NFS READ") || len(b) > 1<<20 {
		t.Errorf("%d bytes, %v: %.2000s", len(b), err, b)
	}
	if l, err := os.ReadDir(filepath.Dir(file)); err != nil || len(l) != 1 {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := newPageFile("/nonexistent/report.html"); err == nil {
		t.Error("a file in no directory")
	}
}
