//go:build knfsd

package interop

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// TestLinuxClientMountsUs: the kernel's client in the guest mounts the embedded
// server over siw against our iWARP responder, over TCP, and over rxe against our
// RoCE responder; with MOUNT over TCP.
func TestLinuxClientMountsUs(t *testing.T) {
	for _, device := range []knfsd.Service{knfsd.SIW, knfsd.RXE} {
		t.Run(device.String(), func(t *testing.T) { linuxClient(t, device) })
	}
}

func linuxClient(t *testing.T, device knfsd.Service) {
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, NoServer: true, RDMA: []knfsd.Service{device}})
	export := t.TempDir()
	if err := os.Chmod(export, 0o1777); err != nil {
		t.Fatal(err)
	}
	all := t // whose end is the end of a server
	s := startServer(t, g, device, buildServer(t), export)
	from := mount.SourceTree(t)
	// The guest's copy of the tree comes over the share, which is not NFS.
	mount.CopyTree(t, from, filepath.Join(g.Share(), "tree"), nil)
	type way struct{ name, words, shows string }
	ways := []way{{"rdma", "proto=rdma,port=20049", "proto=rdma"}}
	if device == knfsd.SIW {
		ways = append(ways, way{"tcp", "proto=tcp,port=2049", "proto=tcp"})
	}
	for _, c := range ways {
		t.Run(c.name, func(t *testing.T) {
			guest(t, g, fmt.Sprintf("mkdir -p /mnt/us && mount -t nfs -o vers=3,%s,mountport=2049,mountproto=tcp,nolock %s:%s /mnt/us",
				c.words, g.HostAddr(), export))
			defer guest(t, g, "umount /mnt/us")
			if out := guest(t, g, "grep /mnt/us /proc/mounts"); !strings.Contains(out, c.shows) {
				t.Errorf("mounted as %s", out)
			}
			guest(t, g, "cp -r /share/tree /mnt/us/"+c.name+" && sync")
			mount.SameTree(t, filepath.Join(export, c.name), from)
			// Past the guest's cache, and of a server that has been restarted.
			s.stop(t)
			s = startServer(all, g, device, s.bin, export)
			guest(t, g, "echo 3 > /proc/sys/vm/drop_caches")
			sameInGuest(t, g, "/mnt/us/"+c.name, from)
			guest(t, g, "cd /mnt/us && mkdir big && cd big && seq -f f%05g 3000 | xargs touch && [ $(ls -l | wc -l) = 3001 ]")
			guest(t, g, `cd /mnt/us && t=$(head -c 4000 /dev/zero | tr '\0' x) && ln -s $t long && [ "$(readlink long)" = $t ]`)
			guest(t, g, "cd /mnt/us && dd if=/dev/urandom of=r bs=1M count=32 conv=fsync 2>/dev/null && cp r s && cmp r s")
			// As an ordinary user: exclusive creation, rename, links.
			guest(t, g, "mkdir /mnt/us/u && chown 1000:1000 /mnt/us/u && chroot --userspec=1000:1000 / sh -c "+
				"'cd /mnt/us/u && set -C && echo hi > a && ! echo again > a && mv a b && ln b c && chmod 400 c && cat b && rm -f b c'")
			guest(t, g, "cd /mnt/us && rm -rf "+c.name+" big long r s u && [ -z \"$(ls -A)\" ]")
			if c.name == "rdma" {
				t.Log(guest(t, g, "grep xprt: /proc/self/mountstats"))
			}
		})
	}
	s.stop(t)
}

func buildServer(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "rdmafs-nfsd")
	build := exec.Command("go", "build", "-o", bin, "github.com/rdmafs/rdmafs/test/nfsd/cmd/rdmafs-nfsd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// server is rdmafs-nfsd in the guest's network.
type server struct {
	bin string
	cmd *exec.Cmd
}

func startServer(t *testing.T, g *knfsd.Guest, device knfsd.Service, bin, export string, more ...string) *server {
	t.Helper()
	host := g.HostAddr().String()
	args := []string{"-export", export + ":no_root_squash", "-tcp", host + ":2049", "-rdma", host + ":20049"}
	if device == knfsd.RXE {
		args = append(args, "-rdma", "", "-roce", host+":20049")
	}
	cmd := exec.Command(bin, append(args, more...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.InNetNS(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test has failed before its end
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		t.Fatalf("the server said %q, %v", line, err)
	}
	return &server{bin, cmd}
}

// stop ends the server in order.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
