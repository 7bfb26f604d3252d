package mount

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/status"
	"github.com/rdmafs/rdmafs/transport/account"
)

// reports are what "rdmafs stats --json" prints with further arguments.
func reports(t *testing.T, m *Mounted, more ...string) (all []status.Report) {
	t.Helper()
	r := Command(t, m.wrapper, append([]string{"stats", "--json", m.Dir}, more...)...)
	if r.Code != 0 {
		t.Fatalf("stats: exit code %d: %s", r.Code, r.Stderr)
	}
	d := json.NewDecoder(strings.NewReader(r.Stdout))
	for {
		var one status.Report
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in %q", err, r.Stdout)
		}
		all = append(all, one)
	}
}

func procedure(r *status.Report, program, name string) account.Procedure {
	for _, p := range r.Procedures {
		if p.Program == program && p.Procedure == name {
			return p
		}
	}
	return account.Procedure{}
}

// TestStatsByProcedure: what a mount has done is counted under the procedures that did it, no more and no less.
func TestStatsByProcedure(t *testing.T) {
	const reads, size = 10, 4096
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			m := s.mount(t, proto, "")
			name := filepath.Join(m.Dir, "file")
			if err := os.WriteFile(name, make([]byte, reads*size), 0o600); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			before := reports(t, m)[0]
			for n := range reads {
				if _, err := unix.Pread(fd, make([]byte, size), int64(n*size)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Lstat(filepath.Join(m.Dir, "missing")); !os.IsNotExist(err) {
				t.Fatal(err)
			}
			all := reports(t, m)[0]
			now := all.Since(&before)
			read := procedure(&now, "NFS", "READ")
			if read.Calls != reads || read.Errors != 0 || read.BytesReceived < reads*size || read.BytesReceived > reads*(size+512) || read.BytesSent == 0 {
				t.Errorf("READ: %+v", read)
			}
			if n := read.Execution.Count(); n != reads || read.RTT.Count() != n || read.Queue.Count() != n || read.RTT.Mean() <= 0 ||
				read.Execution.SumNS != read.Queue.SumNS+read.RTT.SumNS || read.Execution.Quantile(0.99) < read.Execution.Quantile(0.5) {
				t.Errorf("READ: %+v", read)
			}
			if l := procedure(&now, "NFS", "LOOKUP"); l.Calls == 0 || l.Errors == 0 {
				t.Errorf("LOOKUP: %+v", l)
			}
			if now.Requests["read"] != reads {
				t.Errorf("FUSE requests: %v", now.Requests)
			}
			if procedure(&all, "MOUNT", "MNT").Calls != 1 {
				t.Errorf("MOUNT: %+v", procedure(&all, "MOUNT", "MNT"))
			}
			sum := uint64(0)
			for _, p := range all.Procedures {
				if p.Program == "NFS" || p.Program == "NFSACL" {
					sum += p.Calls
				}
			}
			if sum == 0 || sum > all.Calls.Calls {
				t.Errorf("%d calls by procedure, %d in all", sum, all.Calls.Calls)
			}
			if c := now.Cache; c.DataMisses == 0 || c.NameMisses == 0 {
				t.Errorf("cache: %+v", c)
			}
			if all.Calls.Registrations == 0 || all.Calls.RegisteredBytes == 0 {
				t.Errorf("%d registrations, %d bytes", all.Calls.Registrations, all.Calls.RegisteredBytes)
			}
		})
	}
}

// TestStatsInterval: --interval reports what has happened since the report before, --count times.
func TestStatsInterval(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "tcp", "")
	Exercise(t, m.Dir)
	all := reports(t, m, "--interval", "0.1", "--count", "3")
	if len(all) != 3 {
		t.Fatalf("%d reports", len(all))
	}
	if w := procedure(&all[0], "NFS", "WRITE"); w.Calls == 0 {
		t.Errorf("the first report is not of the time since the mount: %+v", w)
	}
	for _, r := range all[1:] {
		if w := procedure(&r, "NFS", "WRITE"); w.Calls != 0 || r.Age >= all[0].Age+60 {
			t.Errorf("%+v after %v s", w, r.Age)
		}
	}
	r := Command(t, nil, "stats", m.Dir, "--interval", "0.1", "-n", "2")
	if n := strings.Count(r.Stdout, "calls/s"); r.Code != 0 || n != 2 {
		t.Errorf("exit code %d, %d reports: %s%s", r.Code, n, r.Stdout, r.Stderr)
	}
	for _, bad := range [][]string{{"--interval", "-1"}, {"--interval", "NaN"}, {"--count", "2"}, {"--json", "--mountstats"}} {
		if r := Command(t, nil, append([]string{"stats", m.Dir}, bad...)...); r.Code != 1 {
			t.Errorf("%v: exit code %d", bad, r.Code)
		}
	}
}

// TestMountstats: mountstats(8) and nfsiostat(8) of nfs-utils read what --mountstats prints, and find in it what was done.
func TestMountstats(t *testing.T) {
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			readByTools(t, s.mount(t, proto, ""), "3")
		})
	}
}

// readByTools uses a mount, and has the programs of nfs-utils show what it has done.
func readByTools(t *testing.T, m *Mounted, version string) {
	t.Helper()
	Exercise(t, m.Dir)
	r := Command(t, m.wrapper, "stats", "--mountstats", m.Dir)
	if r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	report := reports(t, m)[0]
	read, open := procedure(&report, "NFS", "READ"), procedure(&report, "NFS", "OPEN")
	if read.Calls == 0 || (open.Calls == 0) != (version == "3") {
		t.Errorf("READ: %+v, OPEN: %+v", read, open)
	}
	file := filepath.Join(t.TempDir(), "mountstats")
	if err := os.WriteFile(file, []byte(r.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := func(name string) string {
		for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin"} {
			if p := filepath.Join(dir, name); exec.Command("test", "-x", p).Run() == nil {
				return p
			}
		}
		t.Skipf("%s (package nfs-common) is not installed", name)
		return ""
	}
	show := func(name string, want []string, args ...string) {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		for _, w := range want {
			if err != nil || !strings.Contains(string(out), w) {
				t.Errorf("%s: %v, no %q in %s", name, err, w, out)
			}
		}
	}
	calls := fmt.Sprintf("%d ops (", read.Calls)
	show("mountstats", []string{m.Dir, "READ:", calls, "WRITE:", "RTT", "vers=" + version}, tool("mountstats"), "mountstats", "-f", file, m.Dir)
	if version != "3" {
		show("mountstats nfsstat", []string{"Client nfs v4", "open "}, tool("mountstats"), "nfsstat", "-f", file)
	}
	// It reads /proc/self/mountstats and nothing else: give it the file in that place.
	const shim = `import builtins, runpy, sys
real, file, tool = builtins.open, sys.argv[1], sys.argv[2]
builtins.open = lambda path, *a, **k: real(file if path == "/proc/self/mountstats" else path, *a, **k)
sys.argv = [tool] + sys.argv[3:]
runpy.run_path(tool, run_name="__main__")`
	for want, flag := range map[string]string{"read:": "", "getattr:": "-a", "lookup:": "-d", "pages": "-p"} {
		args := []string{"python3", "-c", shim, file, tool("nfsiostat")}
		if flag != "" {
			args = append(args, flag)
		}
		show("nfsiostat "+flag, []string{"mounted on " + m.Dir, want}, args...)
	}
}
