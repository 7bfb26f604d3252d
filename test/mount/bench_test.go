package mount

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/bench"
	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// benchLimit guards against a bench that hangs.
const benchLimit = 2 * time.Minute

// benchTemp is where commands of this test make temporary files from now on.
func benchTemp(t *testing.T) string {
	t.Helper()
	Binary(t) // is made in the usual place
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

// checkEmpty fails if there is anything in a directory.
func checkEmpty(t *testing.T, what, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%s: %v, %v", what, left, err)
	}
}

// benchWays are the three ways to name what is measured, each over a transport of its
// own. target makes it.
var benchWays = []struct {
	way       bench.Way
	transport string
	target    func(t *testing.T, s *server) []string
}{
	{bench.Mount, "rdma/iwarp", func(_ *testing.T, s *server) []string {
		return []string{s.source(), "-o", s.words("rdma", "rdma=iwarp")}
	}},
	{bench.Library, "tcp", func(_ *testing.T, s *server) []string {
		return []string{s.source(), "-o", s.words("tcp", ""), "--no-fuse"}
	}},
	{bench.Directory, "tcp", func(t *testing.T, s *server) []string { return []string{s.mount(t, "tcp", "").Dir} }},
}

// benchRows are workloads of each sort.
var benchRows = regexp.MustCompile("^(sequential read, cold|random write 4 KiB, (16 threads|aio 16)|create|stat, cold|ls -l|rm -rf)$")

// TestBench: each way has figures for every workload that it can run, knows what was
// measured, and leaves nothing behind.
func TestBench(t *testing.T) {
	for _, c := range benchWays {
		t.Run(string(c.way), func(t *testing.T) {
			s := startServer(t, serverOptions{})
			target := c.target(t, s)
			temp := benchTemp(t)
			r := Command(t, nil, append([]string{"bench", "--json", "--time", "1s", "--size", "1MiB", "--workloads", benchRows.String()}, target...)...)
			var report bench.Report
			if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || r.Code != 0 {
				t.Fatalf("exit code %d, %v, %q", r.Code, err, r.Stderr)
			}
			if report.Way != c.way || report.Transport != c.transport || report.Cold == (c.way == bench.Directory) {
				t.Errorf("%+v", report.Used)
			}
			counted := 0
			for _, row := range report.Results {
				if row.Calls != nil && *row.Calls > 0 {
					counted++
				}
				if row.Rate <= 0 && (row.Skipped == "" || c.way != bench.Library) {
					t.Errorf("%+v", row)
				}
			}
			if all := len(workload.Matching(benchRows)); len(report.Results) != all || counted < all/2 {
				t.Errorf("of %d workloads %d are reported, %d with calls", all, len(report.Results), counted)
			}
			checkEmpty(t, "left in the export", s.export)
			checkEmpty(t, "left on this machine", temp)
		})
	}
}

// TestBenchInterrupted: what a bench has made is gone when it was interrupted in the
// middle.
func TestBenchInterrupted(t *testing.T) {
	for _, c := range benchWays {
		t.Run(string(c.way), func(t *testing.T) {
			s := startServer(t, serverOptions{})
			temp := benchTemp(t)
			cmd := exec.Command(Binary(t), append([]string{"bench", "--time", "1h", "--size", "1MiB", "--workloads", "^random"}, c.target(t, s)...)...)
			var said strings.Builder
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			guard := time.AfterFunc(benchLimit, func() { _ = cmd.Process.Kill() })
			defer guard.Stop()
			for deadline := time.Now().Add(benchLimit / 2); !hasLarge(t, s.export); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					_ = cmd.Process.Kill()
					t.Fatalf("no file appeared: %v, %s", cmd.Wait(), said.String())
				}
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the exit code says it
			checkFailure(t, Result{cmd.ProcessState.ExitCode(), "", said.String()}, interrupted, "interrupted")
			checkEmpty(t, "left in the export", s.export)
			checkEmpty(t, "left on this machine", temp)
		})
	}
}

// hasLarge reports whether a bench has written its large file.
func hasLarge(t *testing.T, export string) bool {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(export, "*", "large"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// TestBenchErrors: what is wrong is said, with the exit codes of the other commands, and
// nothing is left.
func TestBenchErrors(t *testing.T) {
	var full atomic.Bool
	s := startServer(t, serverOptions{faults: &nfsd.Faults{Write: func(int) error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return nil
	}}})
	words := s.words("tcp", "")
	temp := benchTemp(t)
	bench := func(code int, args []string, says ...string) {
		t.Helper()
		checkFailure(t, Command(t, nil, append([]string{"bench"}, args...)...), code, says...)
		checkEmpty(t, "left in the export", s.export)
		checkEmpty(t, "left on this machine", temp)
	}
	bench(usage, nil, "DIRECTORY")
	bench(usage, []string{temp, "--size", "much"}, "--size", "MiB")
	bench(usage, []string{temp, "--time", "0s"}, "--time")
	bench(usage, []string{temp, "--workloads", "^nothing$"}, "no workload", "create + write")
	bench(usage, []string{temp, "--workloads", "("}, "--workloads")
	bench(usage, []string{temp, "-o", "proto=tcp"}, "SERVER:/EXPORT")
	bench(usage, []string{temp, "--no-fuse"}, "SERVER:/EXPORT")
	bench(usage, []string{s.source(), "-o", "ro"}, "ro")
	bench(usage, []string{s.source(), "-o", "nonsense"}, "nonsense")
	bench(fail, []string{filepath.Join(temp, "missing")}, "no such file")
	bench(fail, []string{s.tcp.Addr().String() + ":/missing", "-o", words}, "no such export")
	bench(fail, []string{s.tcp.Addr().String() + ":/missing", "-o", words, "--no-fuse"}, "no such export")
	bench(fail, []string{s.source(), "-o", words, "--size", "16000GiB"}, "there is room for", "--size")
	full.Store(true)
	for _, c := range benchWays {
		bench(fail, append([]string{"--size", "4MiB", "--workloads", "sequential write"}, c.target(t, s)...), "no space left", "--size")
	}
}
