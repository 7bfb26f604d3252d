package mount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// refusing answers MNT as a server does that does not let this client in.
type refusing struct{ transport.Handler }

func (h refusing) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Prog == wire.MountProgram && q.Proc == wire.MountMnt {
		(&wire.MntRes{Status: wire.MountErrAccess}).Append(q.Reply)
		return transport.Success
	}
	return h.Handler.Serve(ctx, q)
}

// startRefusing serves s anew, over TCP, but for MNT.
func startRefusing(t *testing.T, s *nfsd.Server) int {
	t.Helper()
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tcp.Serve(ctx, ln, refusing{s.Handler()}, tcp.ServerConfig{}) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return ln.Addr().(*net.TCPAddr).Port
}

// startTCPOnly is a server that speaks no RDMA at all.
func startTCPOnly(t *testing.T) (source string, port int) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: dir, Squash: nfsd.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	at, err := s.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + dir, int(at.Port())
}

// TestDoctorAgreesWithMount: whatever the arguments, the doctor ends with 0 only
// if mount does, and says what is amiss where it is.
func TestDoctorAgreesWithMount(t *testing.T) {
	s := startServer(t, serverOptions{})
	tcpSource, tcpPort := startTCPOnly(t)
	trialsIn(t, t.TempDir())
	closed, silent, refusing := closedPort(t), silentPort(t), startRefusing(t, s.Server)
	for _, c := range []struct {
		name, source, words string
		step                string
		status              doctor.Status
		says, remedy        string
	}{
		{"rdma", s.source(), s.words("rdma", ""), "trial mount", doctor.OK, "rdma/iwarp", ""},
		{"rdma, all options", s.source(), s.words("rdma", "rdma=iwarp,noddp,crc,inline=1024,ro,nosuid"), "trial mount", doctor.OK, "rdma/iwarp", ""},
		{"tcp", s.source(), s.words("tcp", ""), "trial mount", doctor.OK, "tcp", ""},
		{"tcp alone", tcpSource, fmt.Sprintf("proto=tcp,port=%d,mountport=%d", tcpPort, tcpPort), "trial mount", doctor.OK, "tcp", ""},
		{"tcp alone, by rdma", tcpSource, fmt.Sprintf("port=%d,mountport=%d,timeo=50", tcpPort, tcpPort), "connection", doctor.Failure,
			fmt.Sprint(tcpPort), "tcp answers on port " + fmt.Sprint(tcpPort)},
		{"nobody listens", s.source(), fmt.Sprintf("port=%d,mountport=%d", closed, s.tcp.Port()), "connection", doctor.Failure, "refused", "proto=tcp"},
		{"nobody listens, tcp", s.source(), fmt.Sprintf("proto=tcp,port=%d,mountport=%d", closed, s.tcp.Port()), "connection", doctor.Failure, "refused", "port="},
		{"no answer", s.source(), fmt.Sprintf("port=%d,mountport=%d,timeo=10", silent, s.tcp.Port()), "connection", doctor.Failure, fmt.Sprint(silent), "no answer"},
		{"no mountd", s.source(), s.words("rdma", fmt.Sprintf("mountport=%d", closed)), "admission", doctor.Failure, "mountd", "mountport="},
		{"no such export", "127.0.0.1:/no/such/export", s.words("rdma", ""), "admission", doctor.Failure, "/no/such/export", s.export},
		{"not admitted", s.source(), fmt.Sprintf("port=%d,mountport=%d", s.rdma.Port(), refusing), "admission", doctor.Failure, "does not let this client", s.export},
		{"unknown host", "no-such-host.invalid:/x", "", "name", doctor.Failure, "no-such-host.invalid", "/etc/hosts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := Doctor(t, nil, c.words, c.source)
			st := FindStep(t, report, c.step)
			if st.Status != c.status || !strings.Contains(st.Detail, c.says) || !strings.Contains(st.Remedy, c.remedy) {
				t.Errorf("%+v, want %s, %q, %q", st, c.status, c.says, c.remedy)
			}
			if want := c.status == doctor.OK; report.OK != want {
				t.Errorf("%v: %s", report.OK, report.Verdict)
			}
			dir := t.TempDir()
			args := []string{"mount", c.source, dir, "-o", "retry=0"}
			if c.words != "" {
				args = append(args, "-o", c.words)
			}
			if r := Command(t, nil, args...); (r.Code == 0) != report.OK {
				t.Errorf("mount ended with %d: %s", r.Code, r.Stderr)
			} else if r.Code == 0 {
				(&Mounted{Dir: dir}).Umount(t)
			}
		})
	}
}

// trialsIn has the doctor's trial mounts made in dir, and checks in the end that
// neither mounts nor mount points are left of them.
func trialsIn(t *testing.T, dir string) {
	t.Helper()
	Binary(t) // stays where it is built
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "rdmafs-doctor.*"))
		if err != nil || len(left) > 0 || strings.Contains(string(mounts), dir) {
			t.Errorf("the doctor left %q, %v", left, err)
		}
		// An ordinary user's folder of control sockets stays, without any.
		if err := os.Remove(filepath.Join(dir, "rdmafs-65534")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

// TestDoctorSaysWhatToType: what it says to type does work.
func TestDoctorSaysWhatToType(t *testing.T) {
	source, port := startTCPOnly(t)
	words := fmt.Sprintf("ro,port=%d,mountport=%d,timeo=50", port, port)
	remedy := FindStep(t, Doctor(t, nil, words, source), "connection").Remedy
	_, typed, ok := strings.Cut(remedy, ": rdmafs mount "+source+" MOUNTPOINT -o ")
	if !ok || !strings.HasPrefix(typed, words+",proto=tcp") {
		t.Fatalf("remedy %q", remedy)
	}
	if report := Doctor(t, nil, typed, source); !report.OK {
		t.Errorf("with -o %s: %s", typed, report.Verdict)
	}
	m := Mount(t, source, Options{Words: typed})
	if _, err := os.ReadDir(m.Dir); err != nil {
		t.Error(err)
	}
	m.Umount(t)
}

// TestDoctorTells reads the facts of a connection to the embedded server, and
// the text that people get.
func TestDoctorTells(t *testing.T) {
	s := startServer(t, serverOptions{})
	report := Doctor(t, nil, s.words("rdma", "inline=2048"), s.source())
	want := map[string]any{"private_data": true, "inline_send": 2048.0, "inline_receive": 2048.0, "remote_invalidation_offered": true, "remote_invalidation_agreed": true,
		"credits_asked": 128.0, "credits_granted": 128.0}
	for _, name := range []string{"private data", "credits"} {
		if got := FindStep(t, report, name).Facts; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if st := FindStep(t, report, "RPC-over-RDMA"); st.Status != doctor.OK || st.Detail != "versions 1 to 2" {
		t.Errorf("%+v", st)
	}
	times, _ := FindStep(t, report, "NULL call").Facts.(map[string]any)
	if n, _ := times["calls"].(float64); n < 1 || times["min_ns"].(float64) > times["median_ns"].(float64) || times["median_ns"].(float64) > times["p99_ns"].(float64) {
		t.Errorf("NULL calls: %v", times)
	}
	if st := FindStep(t, report, "export list"); !strings.Contains(st.Detail, s.export) {
		t.Errorf("%+v", st)
	}
	r := Command(t, nil, "doctor", s.source(), "-o", s.words("rdma", ""))
	for _, line := range []string{"\n  ok       trial mount ", "\n  ok       private data       inline 4096 bytes", "\nmount would succeed\n"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, line) {
			t.Errorf("exit code %d, and no %q in %s", r.Code, line, r.Stdout)
		}
	}
	alone := Doctor(t, nil, fmt.Sprintf("port=%d,mountport=%d", s.rdma.Port(), s.tcp.Port()), "127.0.0.1")
	if !alone.OK {
		t.Errorf("a server alone: %s", alone.Verdict)
	}
}

// TestDoctorAsOrdinaryUser: the same for one, and without fusermount3.
func TestDoctorAsOrdinaryUser(t *testing.T) {
	wrapper := asUser(t)
	s := startServer(t, serverOptions{})
	trialsIn(t, userDir(t))
	for _, proto := range []string{"rdma", "tcp"} {
		if report := Doctor(t, wrapper, s.words(proto, ""), s.source()); !report.OK {
			t.Errorf("%s: %s", proto, report.Verdict)
		}
	}
	if st := FindStep(t, Doctor(t, wrapper, s.words("rdma", "allow_other"), s.source()), "FUSE"); st.Status != doctor.Failure || !strings.Contains(st.Detail, "fuse.conf") {
		t.Errorf("allow_other: %+v", st)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can hide fusermount3, which is found without PATH")
	}
	const hide = `for f in /usr/bin/fusermount3 /usr/local/bin/fusermount3; do [ ! -e $f ] || mount --bind /dev/null $f || exit; done; exec "$@"`
	bare := append(append([]string{"unshare", "--mount", "sh", "-c", hide, "sh"}, wrapper...), "env", "PATH=/nonexistent")
	for _, args := range [][]string{{s.source()}, {}} {
		report := Doctor(t, bare, s.words("rdma", ""), args...)
		if st := FindStep(t, report, "FUSE"); report.OK || st.Status != doctor.Failure || !strings.Contains(st.Detail, "fusermount3") {
			t.Errorf("%q without fusermount3: %+v", args, st)
		}
	}
}

// TestDoctorOfThisMachine needs no server. Where the kernel has no RDMA it says
// so, and that a mount needs none.
func TestDoctorOfThisMachine(t *testing.T) {
	report := Doctor(t, nil, "")
	if !report.OK {
		t.Errorf("not ready: %s", report.Verdict)
	}
	devices := Command(t, nil, "devices")
	if _, err := os.Stat("/sys/class/infiniband"); err == nil {
		t.Skip("this machine has RDMA")
	}
	if st := FindStep(t, report, "kernel modules"); st.Status != doctor.Skipped || !strings.Contains(st.Detail, "not loaded") {
		t.Errorf("%+v", st)
	}
	if devices.Code != 0 || !strings.Contains(devices.Stdout, "No RDMA device can be used: the kernel's RDMA support is not loaded.\n  -> as root: modprobe") {
		t.Errorf("devices: %+v", devices)
	}
	if r := Command(t, nil, "devices", "--json"); !strings.Contains(r.Stdout, `"devices": []`) || !strings.Contains(r.Stdout, `"remedy": "as root`) {
		t.Errorf("devices --json: %s", r.Stdout)
	}
}

func TestDoctorUsage(t *testing.T) {
	checkFailure(t, Command(t, nil, "doctor", "a:/b", "/mnt"), usage, "no mount point")
	checkFailure(t, Command(t, nil, "doctor", "a:b"), usage, "absolute")
	checkFailure(t, Command(t, nil, "doctor", "a:/b", "-o", "frobnicate"), usage, `"frobnicate"`)
	checkFailure(t, Command(t, nil, "devices", "mlx5_0"), usage, "mlx5_0")
}

// TestDoctorMovesData: data goes both ways over the very transport of the mount,
// through a file of which nothing is left; or, where none is to be made, from one
// that is there.
func TestDoctorMovesData(t *testing.T) {
	s := startServer(t, serverOptions{})
	transfers := []string{"transfer of 64 KiB", "transfer of 1024 KiB"}
	for _, proto := range []string{"rdma", "tcp"} {
		report := Doctor(t, nil, s.words(proto, ""), s.source())
		for _, name := range transfers {
			if st := FindStep(t, report, name); st.Status != doctor.OK || !strings.Contains(st.Detail, "written and read back") {
				t.Errorf("%s: %+v", proto, st)
			}
		}
		if st := FindStep(t, report, "rights"); st.Status != doctor.OK || !strings.Contains(st.Detail, "read and write") {
			t.Errorf("%s: %+v", proto, st)
		}
	}
	left, err := os.ReadDir(s.export)
	if err != nil || len(left) > 0 {
		t.Errorf("the doctor left %v, %v", left, err)
	}
	before, err := os.Stat(s.export)
	if err != nil {
		t.Fatal(err)
	}
	if st := FindStep(t, Doctor(t, nil, s.words("rdma", ""), "--no-write", s.source()), transfers[0]); st.Status != doctor.Skipped {
		t.Errorf("nothing to read: %+v", st)
	}
	if after, err := os.Stat(s.export); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("--no-write has changed the export: %v", err)
	}
	if err := os.WriteFile(filepath.Join(s.export, "file"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range transfers {
		if st := FindStep(t, Doctor(t, nil, s.words("rdma", "ro"), s.source()), name); st.Status != doctor.OK || !strings.Contains(st.Detail, "read of a file") {
			t.Errorf("read-only: %+v", st)
		}
	}
}

// TestDoctorTellsRights: an export that lets the mount succeed and then root or the
// user find closed doors is told before.
func TestDoctorTellsRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: what it is squashed to")
	}
	for _, c := range []struct {
		name    string
		mode    os.FileMode
		squash  bool
		wrapper []string
		says    string
	}{
		{"root_squash, 0700", 0o700, true, nil, "root is nobody here (root_squash), and nobody may not enter"},
		{"root_squash, 0755", 0o755, true, nil, "root is nobody here (root_squash), and nobody may not write"},
		{"root_squash, 01777", 0o777 | os.ModeSticky, true, nil, "root is nobody here (root_squash): files that root makes belong to uid 65534"},
		{"a user, 0700", 0o700, false, nobody, "uid 65534 may not enter the export: its directory has mode 0700 and belongs to uid 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, serverOptions{mode: c.mode, squashRoot: c.squash})
			st := FindStep(t, Doctor(t, c.wrapper, s.words("rdma", ""), s.source()), "rights")
			if st.Status != doctor.Warning || !strings.Contains(st.Detail, c.says) || st.Remedy == "" {
				t.Errorf("%+v", st)
			}
		})
	}
}
