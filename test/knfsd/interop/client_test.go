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
// server over siw against our iWARP responder, with MOUNT over TCP, and over
// TCP alone.
func TestLinuxClientMountsUs(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, NoServer: true, RDMA: []knfsd.Service{knfsd.SIW}})
	export := t.TempDir()
	if err := os.Chmod(export, 0o1777); err != nil {
		t.Fatal(err)
	}
	startServer(t, g, export)
	from := mount.SourceTree(t)
	// The guest's copy of the tree comes over the share, which is not NFS.
	mount.CopyTree(t, from, filepath.Join(g.Share(), "tree"), nil)
	host := g.HostAddr()
	for _, c := range []struct{ name, words, shows string }{
		{"rdma", "proto=rdma,port=20049", "proto=rdma"},
		{"tcp", "proto=tcp,port=2049", "proto=tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			guest(t, g, fmt.Sprintf("mkdir -p /mnt/us && mount -t nfs -o vers=3,%s,mountport=2049,mountproto=tcp,nolock %s:%s /mnt/us",
				c.words, host, export))
			defer guest(t, g, "umount /mnt/us")
			if out := guest(t, g, "grep /mnt/us /proc/mounts"); !strings.Contains(out, c.shows) {
				t.Errorf("mounted as %s", out)
			}
			guest(t, g, "cp -r /share/tree /mnt/us/"+c.name+" && sync")
			mount.SameTree(t, filepath.Join(export, c.name), from)
			sameInGuest(t, g, "/mnt/us/"+c.name, from)
			// Past the guest's cache: unmounted and mounted again.
			guest(t, g, "echo 3 > /proc/sys/vm/drop_caches")
			sameInGuest(t, g, "/mnt/us/"+c.name, from)
			guest(t, g, "cd /mnt/us && mkdir big && cd big && seq -f f%05g 3000 | xargs touch && [ $(ls -l | wc -l) = 3001 ]")
			guest(t, g, `cd /mnt/us && t=$(head -c 4000 /dev/zero | tr '\0' x) && ln -s $t long && [ "$(readlink long)" = $t ]`)
			guest(t, g, "cd /mnt/us && dd if=/dev/urandom of=r bs=1M count=32 conv=fsync 2>/dev/null && cp r s && cmp r s")
			guest(t, g, "rm -rf /mnt/us/"+c.name+" /mnt/us/big /mnt/us/long /mnt/us/r /mnt/us/s && [ -z \"$(ls -A /mnt/us)\" ]")
			if c.name == "rdma" {
				t.Log(guest(t, g, "grep xprt: /proc/self/mountstats"))
			}
		})
	}
}

// startServer runs the embedded server's command inside the guest's network.
func startServer(t *testing.T, g *knfsd.Guest, export string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "rdmafs-nfsd")
	build := exec.Command("go", "build", "-o", bin, "github.com/rdmafs/rdmafs/test/nfsd/cmd/rdmafs-nfsd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	host := g.HostAddr().String()
	cmd := exec.Command(bin, "-export", export+":no_root_squash", "-tcp", host+":2049", "-rdma", host+":20049")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.InNetNS(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		t.Fatalf("the server said %q, %v", line, err)
	}
}
