package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTopRecord: what top has seen of a mount is in a page.
func TestTopRecord(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "rdma", "")
	if err := os.WriteFile(filepath.Join(m.Dir, "file"), make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if r := Command(t, nil, "top", "--batch", "-n", "3", "--interval", "0.1", "--record", page); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h2>" + m.Dir + "</h2>", "How long calls took", "<polyline", s.source()} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	checkFailure(t, Command(t, nil, "top", "--record", "/nonexistent/page.html"), 2, "/nonexistent/page.html cannot be written")
}

// TestBenchPage: bench writes a page beside its table.
func TestBenchPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	r := Command(t, nil, "bench", t.TempDir(), "--time", "1s", "--size", "1MiB", "--workloads", "^create|^stat", "--html", page)
	if r.Code != 0 || !strings.Contains(r.Stdout, "workload") {
		t.Fatalf("%+v", r)
	}
	b, err := os.ReadFile(page)
	if err != nil || strings.Count(string(b), "<svg") < 2 || !strings.Contains(string(b), "create") {
		t.Errorf("%v: %.1000s", err, b)
	}
}
