package mount

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/status"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// awaitThat polls until done is true, and fails the test if that takes too long.
func awaitThat(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not happen that %s", what)
		}
	}
}

func stateOf(t *testing.T, m *Mounted) status.State {
	t.Helper()
	r := Command(t, m.wrapper, "status", "--json", m.Dir)
	var s status.Status
	if err := json.Unmarshal([]byte(r.Stdout), &s); r.Code != 0 || err != nil {
		t.Fatalf("status: exit code %d, %v: %s%s", r.Code, err, r.Stdout, r.Stderr)
	}
	return s.State
}

// TestStatusOfSilentServer: while a server does not answer, status says who waits for what and how long; top and list say
// it, too, and afterwards nothing waits.
func TestStatusOfSilentServer(t *testing.T) {
	s := startMute(t, 0, true)
	// Long before the call has taken too long, its link is replaced.
	m := s.mount(t, "tcp", "timeo=100,retrans=1000")
	name := filepath.Join(m.Dir, "a file")
	if err := os.WriteFile(name, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st := stateOf(t, m); st.State != status.StateOK || st.Since.IsZero() || len(st.Requests)+len(st.Calls) > 0 || st.DirtyBytes != 0 {
		t.Errorf("of a healthy mount: %+v", st)
	}
	if r := Command(t, nil, "doctor", m.Dir); r.Code != 0 || strings.Contains(r.Stdout, "warning") || !strings.Contains(r.Stdout, "the mount is healthy") {
		t.Errorf("doctor: exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	s.silent.Store(true)
	reader := exec.Command("dd", "if="+name, "of=/dev/null", "iflag=direct", "status=none")
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	var st status.State
	awaitThat(t, "a request and a call wait", func() bool {
		st = stateOf(t, m)
		return len(st.Requests) > 0 && len(st.Calls) > 0
	})
	q, c := st.Requests[0], st.Calls[0]
	if !strings.Contains(q.Path, "a file") && !strings.Contains(q.Path, "inode") || q.PID != uint32(reader.Process.Pid) || q.Process != "dd" {
		t.Errorf("waits: %+v", q)
	}
	if st.State != status.StateWaiting || !strings.HasPrefix(c.Procedure, "NFS ") || c.Sent < 1 || !c.Connected || c.Seconds < 0.5 {
		t.Errorf("%s: %+v", st.State, c)
	}
	if r := Command(t, nil, "status", m.Dir); !strings.Contains(r.Stdout, "request waits") || !strings.Contains(r.Stdout, "(dd)") || !strings.Contains(r.Stdout, "call waits") {
		t.Errorf("status: %s", r.Stdout)
	}
	if r := Command(t, nil, "top", "--batch", "-n", "1"); r.Code != 0 || !strings.Contains(r.Stdout, m.Dir) || !strings.Contains(r.Stdout, "(dd)") {
		t.Errorf("top: exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := Command(t, nil, "doctor", m.Dir); !strings.Contains(r.Stdout, "requests wait") {
		t.Errorf("doctor: exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if l := listedAt(t, m.Dir); l["state"] != "waiting" || l["pid"] == nil {
		t.Errorf("list: %v", l)
	}
	s.silent.Store(false)
	if err := reader.Wait(); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, "nothing waits", func() bool {
		st = stateOf(t, m)
		return st.State == status.StateOK && len(st.Requests)+len(st.Calls) == 0
	})
}

// listedAt is the mount at a directory, as "rdmafs list --json" has it.
func listedAt(t *testing.T, dir string) map[string]any {
	t.Helper()
	r := Command(t, nil, "list", "--json")
	var all []map[string]any
	if err := json.Unmarshal([]byte(r.Stdout), &all); r.Code != 0 || err != nil {
		t.Fatalf("list: exit code %d, %v: %s%s", r.Code, err, r.Stdout, r.Stderr)
	}
	for _, l := range all {
		if l["mount_point"] == dir {
			return l
		}
	}
	return nil
}

// TestList: all mounts, and what is known of them when their daemon is stopped.
func TestList(t *testing.T) {
	s := startServer(t, serverOptions{})
	a, b := s.mount(t, "tcp", ""), s.mount(t, "rdma", "")
	if l := listedAt(t, b.Dir); l["state"] != "ok" || l["source"] != s.source() || l["transport"] != "rdma/iwarp" {
		t.Errorf("%v", l)
	}
	r := Command(t, nil, "list")
	for _, want := range []string{"MOUNT POINT", a.Dir, b.Dir, "tcp"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in %s", want, r.Stdout)
		}
	}
	pid, _ := daemon(t, a)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(pid, unix.SIGCONT) }()
	// The signal stops its threads one after the other.
	awaitThat(t, "list says that the daemon is stuck", func() bool { return listedAt(t, a.Dir)["state"] == "stuck" })
}

// TestLog: what is logged goes to the file, as JSON if asked for, from the level that rdmafs log has set; slow calls are
// in it with path and phases.
func TestLog(t *testing.T) {
	const late = 50 * time.Millisecond
	s := startServer(t, serverOptions{faults: &nfsd.Faults{Before: func(ctx context.Context, e nfsd.Event) nfsd.Action {
		if e.Prog == 100003 && e.Proc == 6 { // READ
			select {
			case <-time.After(late):
			case <-ctx.Done():
			}
		}
		return nfsd.Proceed
	}}})
	file := filepath.Join(t.TempDir(), "log")
	m := s.mount(t, "tcp", "log=error,logformat=json,slow=40ms,logfile="+file)
	lines := func() (all []map[string]any) {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			all = append(all, v)
		}
		return all
	}
	name := filepath.Join(m.Dir, "slow file")
	if err := os.WriteFile(name, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() {
		t.Helper()
		if out, err := exec.Command("dd", "if="+name, "of=/dev/null", "iflag=direct", "status=none").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	read()
	if got := lines(); len(got) != 0 {
		t.Errorf("with log=error: %v", got)
	}
	if r := Command(t, nil, "log", m.Dir, "warn"); r.Code != 0 {
		t.Fatalf("log: exit code %d: %s", r.Code, r.Stderr)
	}
	read()
	said := false
	for _, l := range lines() {
		msg := fmt.Sprint(l["msg"])
		said = said || strings.Contains(msg, "slow call: NFS READ of \"/slow file\" for process ") && strings.Contains(msg, "queue ") && strings.Contains(msg, "wire ") && strings.Contains(msg, "reply ")
		if l["level"] != "WARN" || l["mount"] != m.Dir || l["time"] == nil {
			t.Errorf("%v", l)
		}
	}
	if !said {
		t.Errorf("the slow READ is not there: %v", lines())
	}
	if r := Command(t, nil, "log", m.Dir); r.Code != 0 || !strings.Contains(r.Stdout, "slow call: NFS READ") {
		t.Errorf("the log is not shown: exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, bad := range [][]string{{"log", m.Dir, "loud"}, {"log", m.Dir, "--lines=0"}} {
		if r := Command(t, nil, bad...); r.Code != 1 {
			t.Errorf("%v: exit code %d", bad, r.Code)
		}
	}
	if r := Command(t, nil, "log", t.TempDir(), "warn"); r.Code != 32 || !strings.Contains(r.Stderr, "nothing is mounted there") {
		t.Errorf("exit code %d: %s", r.Code, r.Stderr)
	}
}

// TestCrashIsKept: the trace of a daemon that was sent SIGQUIT is where the next command says.
func TestCrashIsKept(t *testing.T) {
	s := startServer(t, serverOptions{})
	t.Run("file of its own", func(t *testing.T) {
		m := s.mount(t, "tcp", "")
		pid, exited := daemon(t, m)
		if err := unix.Kill(pid, unix.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		exited()
		r := Command(t, nil, "stats", m.Dir)
		_, file, said := strings.Cut(strings.TrimSpace(r.Stderr), "its trace is in ")
		if r.Code != 32 || !said {
			t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
		}
		defer os.Remove(file)
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "SIGQUIT") || !strings.Contains(string(b), "goroutine ") {
			t.Errorf("%v: %.300s", err, b)
		}
	})
	t.Run("log file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "log")
		m := s.mount(t, "tcp", "logfile="+file)
		pid, exited := daemon(t, m)
		if err := unix.Kill(pid, unix.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		exited()
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "mounted "+s.source()) || !strings.Contains(string(b), "goroutine ") {
			t.Errorf("%v: %.300s", err, b)
		}
	})
}

// getOver makes an HTTP request over a Unix socket.
func getOver(t *testing.T, socket, path string) string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	r, err := c.Get("http://localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v: %s", r.Status, err, b)
	}
	return string(b)
}

// TestMetricsOfMounts: metrics= serves those of its mount, the exporter those of all, pprof= profiles.
func TestMetricsOfMounts(t *testing.T) {
	s := startServer(t, serverOptions{})
	dir := t.TempDir()
	own, profiles, all := filepath.Join(dir, "m.sock"), filepath.Join(dir, "p.sock"), filepath.Join(dir, "all.sock")
	a := s.mount(t, "tcp", "metrics=unix:"+own+",pprof=unix:"+profiles)
	b := s.mount(t, "rdma", "")
	Exercise(t, a.Dir)
	up := func(m *Mounted) string {
		return fmt.Sprintf("rdmafs_server_up{mount_point=%q,source=%q} 1\n", m.Dir, s.source())
	}
	text := getOver(t, own, "/metrics")
	if !strings.Contains(text, up(a)) || strings.Contains(text, b.Dir) || !strings.Contains(text, `rdmafs_procedure_execution_seconds_count{mount_point="`+a.Dir+`",procedure="WRITE",program="NFS"`) {
		t.Errorf("metrics of the mount: %s", text)
	}
	if !strings.Contains(getOver(t, profiles, "/debug/pprof/goroutine?debug=1"), "goroutine profile") {
		t.Error("no profile of goroutines")
	}
	exporter := exec.Command(Binary(t), "exporter", "--listen", "unix:"+all)
	said, err := exporter.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := said.Read(make([]byte, 1)); err != nil { // it listens
		t.Error(err)
	}
	text = getOver(t, all, "/metrics")
	if !strings.Contains(text, up(a)) || !strings.Contains(text, up(b)) {
		t.Errorf("metrics of all mounts: %s", text)
	}
	if err := exporter.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := exporter.Wait(); err != nil {
		t.Errorf("exporter: %v", err)
	}
	r := Command(t, nil, "mount", s.source(), t.TempDir(), "-o", s.words("tcp", "metrics=unix:"+own))
	if r.Code == 0 || !strings.Contains(r.Stderr, "metrics=") || !strings.Contains(r.Stderr, "another process listens there") {
		t.Errorf("a socket that is taken: exit code %d: %s", r.Code, r.Stderr)
	}
}
