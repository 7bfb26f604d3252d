package mount

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/rpcbindtest"
)

// insideRpcbind marks the test process that runs in namespaces of its own.
const insideRpcbind = "RDMAFS_TEST_RPCBIND"

// TestRpcbind mounts without port= from a server that is on another port and has
// registered that with rpcbind: one of the test's own, and Debian's where that is
// installed. rpcbind's port and socket are the same everywhere, so the test runs
// itself again in namespaces of its own.
func TestRpcbind(t *testing.T) {
	if kind := os.Getenv(insideRpcbind); kind != "" {
		rpcbindInside(t, kind)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make the namespaces")
	}
	for _, kind := range []string{"own", "debian"} {
		t.Run(kind, func(t *testing.T) {
			if _, err := exec.LookPath("rpcbind"); kind == "debian" && err != nil {
				t.Skip("rpcbind is not installed")
			}
			cmd := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "-test.run=^TestRpcbind$", "-test.v")
			cmd.Env = append(os.Environ(), insideRpcbind+"="+kind)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func rpcbindInside(t *testing.T, kind string) {
	for _, args := range [][]string{{"ip", "link", "set", "lo", "up"}, {"mount", "--make-rprivate", "/"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v, %s", args, err, out)
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:111"
	if kind == "own" {
		rpcbindtest.Start(t, at)
	} else {
		at = startDebianRpcbind(t)
	}
	export, dir := t.TempDir(), t.TempDir()
	startBinary(t, "-export", export+":no_root_squash,async", "-tcp", "127.0.0.1:0", "-rdma", "127.0.0.1:0", "-rpcbind", at)
	m := Mount(t, "127.0.0.1:"+export, Options{Dir: dir})
	Exercise(t, m.Dir)
	m.Umount(t)
}

// startBinary runs rdmafs-nfsd until the test ends, and returns when it serves.
func startBinary(t *testing.T, args ...string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "rdmafs-nfsd")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/rdmafs/rdmafs/test/nfsd/cmd/rdmafs-nfsd").CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	cmd := exec.Command(bin, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("rdmafs-nfsd: %v", err)
		}
	})
	if err != nil || !strings.HasPrefix(line, "ready") {
		t.Fatalf("rdmafs-nfsd said %q, %v", line, err)
	}
}

// startDebianRpcbind runs rpcbind, which leaves its parent once it answers, and
// returns its socket. It ends with the process namespace.
func startDebianRpcbind(t *testing.T) string {
	t.Helper()
	if err := os.Mkdir("/run/rpcbind", 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("rpcbind").CombinedOutput(); err != nil {
		t.Fatalf("rpcbind: %v, %s", err, out)
	}
	return "/run/rpcbind.sock"
}
