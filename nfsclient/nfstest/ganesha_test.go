package nfstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ganeshaEnv names the directory of the server, for the process that is its client.
const ganeshaEnv = "RDMAFS_NFSTEST_GANESHA"

// ganeshaAddr is where the server listens, in a network of its own.
const ganeshaAddr = "127.0.0.1:2049"

// ganesha is nfs-ganesha for NFSv4 by TCP. It exports /export/sub, beneath directories of the
// pseudo file system.
type ganesha struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

// inGanesha runs body in a process of its own, in namespaces where a server runs.
func inGanesha(t *testing.T, body func(t *testing.T, g *ganesha)) {
	t.Helper()
	if dir := os.Getenv(ganeshaEnv); dir != "" {
		g := &ganesha{t: t, dir: dir}
		g.start()
		defer g.stop()
		body(t, g)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can run nfs-ganesha")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, p := range []string{"ganesha.nfsd", "unshare", "ip", "mount"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed (Debian: nfs-ganesha, nfs-ganesha-vfs)", p)
		}
	}
	dir := t.TempDir()
	for _, d := range []string{"data", "recovery"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Recovery in the way of fs keeps the clients in files, for what restarts.
	conf := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }
NFS_KRB5 { Active_krb5 = false; }
NFSv4 {
	RecoveryBackend = fs; RecoveryRoot = "%[1]s/recovery"; Minor_Versions = 1, 2;
	Lease_Lifetime = 10; Grace_Period = 10; Only_Numeric_Owners = true; Allow_Numeric_Owners = true;
}
EXPORT {
	Export_Id = 1; Path = "%[1]s/data"; Pseudo = "/export/sub"; Access_Type = RW; Squash = No_Root_Squash;
	Protocols = 4; Transports = TCP; SecType = sys;
	FSAL { Name = VFS; }
}
LOG { Default_Log_Level = EVENT; }
`, dir)
	if err := os.WriteFile(filepath.Join(dir, "ganesha.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", `ip link set lo up && mount -t tmpfs tmpfs /run && mkdir -p /var/run/ganesha && exec "$@"`, "server",
		os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ganeshaEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare: ") {
		t.Skipf("this machine does not let us have a network of our own: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		log, _ := os.ReadFile(filepath.Join(dir, "ganesha.log"))
		t.Errorf("%v\n%s\nganesha:\n%s", err, out, log)
		return
	}
	t.Logf("%s", out)
}

// start returns when the server listens.
func (g *ganesha) start() {
	g.t.Helper()
	g.cmd = exec.Command("ganesha.nfsd", "-F", "-f", g.dir+"/ganesha.conf", "-L", g.dir+"/ganesha.log", "-p", g.dir+"/ganesha.pid")
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", ganeshaAddr)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			g.t.Fatalf("the server does not listen: %v", err)
		}
	}
}

// stop ends the server as a crash does: it tells nobody, and keeps what is on disk.
func (g *ganesha) stop() {
	g.t.Helper()
	if err := g.cmd.Process.Kill(); err != nil {
		g.t.Error(err)
	}
	var ended *exec.ExitError
	if err := g.cmd.Wait(); err != nil && !(errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signaled()) {
		g.t.Error(err)
	}
}

func (g *ganesha) restart() {
	g.t.Helper()
	g.stop()
	g.start()
}
