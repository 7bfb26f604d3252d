package linuxclient

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// server is rdmafs-nfsd in the guest's network.
type server struct {
	cmd  *exec.Cmd
	out  *bufio.Scanner
	dir  string
	addr string
}

func startServer(t *testing.T, g *knfsd.Guest, bin, dir string) *server {
	t.Helper()
	host := g.HostAddr().String()
	cmd := exec.Command(bin, "-export", dir+":path=/export,no_root_squash", "-tcp", host+":2049", "-rdma", host+":20049", "-stats", "-v")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.InNetNS(cmd.Start); err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd, out: bufio.NewScanner(pipe), dir: dir, addr: host}
	if !s.out.Scan() || !strings.HasPrefix(s.out.Text(), "ready ") {
		t.Fatalf("the server said %q", s.out.Text())
	}
	return s
}

// stop ends the server in order, and returns its counters.
func (s *server) stop(t *testing.T) (st nfsd.Stats) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for s.out.Scan() {
		if err := json.Unmarshal(s.out.Bytes(), &st); err != nil {
			t.Errorf("counters %q: %v", s.out.Text(), err)
		}
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	return st
}

func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "rdmafs-nfsd")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/rdmafs/rdmafs/test/nfsd/cmd/rdmafs-nfsd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// tree fills dir with files of many sizes, links, and a directory of many
// entries.
func tree(t *testing.T, dir string) {
	t.Helper()
	rnd := rand.NewChaCha8([32]byte{1})
	put := func(name string, n int) {
		b := make([]byte, n)
		_, _ = rnd.Read(b)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"sub/deep", "many"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range []int{0, 1, 3, 1000, 4095, 4096, 4097, 70001, 1 << 20, 5<<20 + 13} {
		put(fmt.Sprintf("sub/deep/file%d", i), n)
	}
	for i := range 2000 {
		put(fmt.Sprintf("many/f%04d", i), i%7)
	}
	if err := os.Symlink(strings.Repeat("x/", 1999)+"xx", filepath.Join(dir, "sub/longlink")); err != nil {
		t.Fatal(err)
	}
}

// sumScript prints a digest of all files, names and link targets below.
const sumScript = `(find . -type f | LC_ALL=C sort | xargs sha256sum; find . -type l | LC_ALL=C sort | while read l; do echo $l; readlink $l; done) | sha256sum | cut -c1-64`

func sumOf(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", sumScript)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestLinuxClient(t *testing.T) {
	cfg := knfsd.Config{Network: knfsd.Tap, NoServer: true, RDMA: []knfsd.Service{knfsd.SIW}}
	g := knfsd.StartTest(t, cfg)
	bin, dir := build(t), t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree(t, filepath.Join(dir, "src"))
	want := sumOf(t, filepath.Join(dir, "src"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := startServer(t, g, bin, dir)
	defer func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill() // a test that failed
			_ = s.cmd.Wait()
		}
	}()
	check := func(script string) string {
		t.Helper()
		out, err := g.Check(ctx, script)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(out)
	}
	for _, proto := range []string{"tcp,port=2049", "rdma,port=20049"} {
		name := strings.Split(proto, ",")[0]
		mnt := "/mnt/" + name
		check("mkdir -p " + mnt + " && mount -t nfs -o vers=3,nolock,mountproto=tcp,mountport=2049,proto=" + proto + " " + s.addr + ":/export " + mnt)
		if got := check("cd " + mnt + "/src && " + sumScript); got != want {
			t.Errorf("%s: what the client reads differs", name)
		}
		check("cp -a " + mnt + "/src " + mnt + "/copy-" + name + " && sync")
		if got := sumOf(t, filepath.Join(dir, "copy-"+name)); got != want {
			t.Errorf("%s: what the client wrote differs", name)
		}
		if n := check("ls -l " + mnt + "/copy-" + name + "/many | grep -c f"); n != "2000" {
			t.Errorf("%s: %s entries", name, n)
		}
		// As an ordinary user; exclusive creation; rename and removal.
		check("mkdir " + mnt + "/t && chown 1000:1000 " + mnt + "/t && chroot --userspec=1000:1000 / sh -c 'cd " + mnt + "/t && " +
			"set -C && echo hi > a && mv a b && ln b c && chmod 400 c && cat b && rm -f b c' && rmdir " + mnt + "/t")
		h := sha256.New()
		b := make([]byte, 3<<20)
		_, _ = rand.NewChaCha8([32]byte{2}).Read(b)
		h.Write(b)
		if err := os.WriteFile(filepath.Join(dir, "fresh-"+name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		// The server goes and comes back under the mount.
		s.stop(t)
		s = startServer(t, g, bin, dir)
		if got := check("sha256sum " + mnt + "/fresh-" + name + " | cut -c1-64"); got != hex.EncodeToString(h.Sum(nil)) {
			t.Errorf("%s: after a restart the client reads %s", name, got)
		}
		check("rm -r " + mnt + "/copy-" + name + " && umount " + mnt)
		if _, err := os.Lstat(filepath.Join(dir, "copy-"+name)); !os.IsNotExist(err) {
			t.Errorf("%s: the copy is left: %v", name, err)
		}
	}
	st := s.stop(t)
	if len(st.RDMA) != 1 || st.RDMA[0].Calls == 0 || st.Calls == 0 {
		t.Errorf("counters: %+v", st)
	}
}
