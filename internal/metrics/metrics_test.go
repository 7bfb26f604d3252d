package metrics

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/rdmafs/rdmafs/internal/status"
	"github.com/rdmafs/rdmafs/transport/account"
)

func times(n uint64) account.Times {
	return account.Times{SumNS: n * 1e6, Buckets: []account.Bucket{{UpToNS: 1 << 20, Count: n}}}
}

func report() *status.Report {
	return &status.Report{
		Procedures: []account.Procedure{{Program: "NFS", Procedure: "READ", Calls: 7, Errors: 1, Queue: times(7), RTT: times(7), Execution: times(7)}},
		Requests:   map[string]uint64{"read": 9},
		State:      status.State{State: status.StateOK, DirtyBytes: 4096},
	}
}

func scrape(t *testing.T, mounts ...Mount) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(func() ([]Mount, error) { return mounts, nil }).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// TestMetrics: what a report says is in the metrics, which promlint and, where it is installed, promtool find nothing wrong with.
func TestMetrics(t *testing.T) {
	text := scrape(t, Mount{"server:/export", "/mnt", report()}, Mount{"server:/gone", "/gone", nil})
	for _, line := range []string{
		`rdmafs_up{mount_point="/mnt",source="server:/export"} 1`,
		`rdmafs_up{mount_point="/gone",source="server:/gone"} 0`,
		`rdmafs_server_up{mount_point="/mnt",source="server:/export"} 1`,
		`rdmafs_dirty_bytes{mount_point="/mnt",source="server:/export"} 4096`,
		`rdmafs_fuse_requests_total{mount_point="/mnt",request="read",source="server:/export"} 9`,
		`rdmafs_procedure_errors_total{mount_point="/mnt",procedure="READ",program="NFS",source="server:/export"} 1`,
		`rdmafs_procedure_rtt_seconds_count{mount_point="/mnt",procedure="READ",program="NFS",source="server:/export"} 7`,
		`rdmafs_procedure_rtt_seconds_bucket{mount_point="/mnt",procedure="READ",program="NFS",source="server:/export",le="0.001048576"} 7`,
		`rdmafs_procedure_rtt_seconds_bucket{mount_point="/mnt",procedure="READ",program="NFS",source="server:/export",le="0.000262144"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Logf("promtool is not installed: %v", err)
		return
	}
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
}

// FuzzMetrics: no report, which may be another user's, makes the metrics of other mounts fail.
func FuzzMetrics(f *testing.F) {
	f.Add([]byte(`{"procedures":[{"program":"a","procedure":"b"},{"program":"a","procedure":"b"},{"program":"\u001b\n\"","procedure":"\ud800"}]}`))
	f.Add([]byte(`{"fuse_requests":{"a\nb":1,"\ud800":2,"\ud801":3},"state":{"dirty_bytes":-1,"waiting_calls":[{"seconds":1e308}]}}`))
	f.Add([]byte(`{"procedures":[{"rtt":{"sum_ns":18446744073709551615,"buckets":[[0,18446744073709551615],[1,2]]}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r status.Report
		if json.Unmarshal(b, &r) != nil {
			return
		}
		text := scrape(t, Mount{"good:/", "/good", report()}, Mount{"evil:/\xff", "/evil\n", &r}, Mount{"evil:/\xff", "/evil\n", &r})
		if !strings.Contains(text, `rdmafs_dirty_bytes{mount_point="/good",source="good:/"} 4096`) {
			t.Errorf("the other mount is not there: %s", text)
		}
	})
}

// TestSocket: a socket is its user's alone, is replaced when nobody listens on it any more, and taken from nobody.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.sock")
	serve := func() *Server {
		t.Helper()
		ln, err := Listen("unix:" + path)
		if err != nil {
			t.Fatal(err)
		}
		return Serve(ln, Handler(func() ([]Mount, error) { return nil, nil }))
	}
	s := serve()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := Listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second listener: %v", err)
	}
	s.Close()
	serve().Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:" + path); err == nil {
		t.Error("a file was replaced")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "mine" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
