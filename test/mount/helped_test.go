package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// helped is a mount namespace in which rdmafs is a helper of mount(8), and which has an
// fstab of its own. The machine is as it was.
type helped struct {
	t   *testing.T
	pid string // of a process in it
}

// newHelped makes one, with links to rdmafs in /usr/sbin by these names.
func newHelped(t *testing.T, fstab string, links ...string) *helped {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a mount namespace with helpers of mount(8) in /usr/sbin")
	}
	if b, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(b), "\toverlay\n") {
		t.Skipf("needs overlayfs in the kernel, so as not to write to /usr/sbin (%v)", err)
	}
	dir := t.TempDir()
	table := filepath.Join(dir, "fstab")
	if err := os.WriteFile(table, []byte(fstab), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `set -e
mkdir "$1/layers"; mount -t tmpfs tmpfs "$1/layers"; mkdir "$1/layers/upper" "$1/layers/work"
mount -t overlay -o "lowerdir=/usr/sbin,upperdir=$1/layers/upper,workdir=$1/layers/work" overlay /usr/sbin
[ -e /etc/fstab ]
mount --bind "$2" /etc/fstab
bin=$3; shift 3
for link; do ln -s "$bin" "/usr/sbin/$link"; done
echo ready; read end`
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", dir, table, Binary(t)}, links...)...)
	cmd.Stderr = os.Stderr
	k := startTalk(t, cmd)
	k.await("ready")
	h := &helped{t, strconv.Itoa(cmd.Process.Pid)}
	t.Cleanup(func() {
		h.run(nil, "umount", "-a", "-t", "fuse.rdmafs")
		k.end()
		_ = cmd.Wait()
	})
	return h
}

// run runs a command in the namespace, through a wrapper, and ends it if it hangs.
func (h *helped) run(wrapper []string, args ...string) Result {
	h.t.Helper()
	line := append([]string{"nsenter", "-t", h.pid, "-m", "--", "timeout", "--foreground", "-k", "5", "300"}, wrapper...)
	return execute(h.t, append(line, args...))
}

// must is run of what has to succeed.
func (h *helped) must(wrapper []string, args ...string) string {
	h.t.Helper()
	r := h.run(wrapper, args...)
	if r.Code != 0 {
		h.t.Fatalf("%s: exit code %d: %s", strings.Join(args, " "), r.Code, r.Stderr)
	}
	return r.Stdout
}

// mounted reports whether an rdmafs is mounted at dir in the namespace.
func (h *helped) mounted(dir string) bool {
	h.t.Helper()
	return h.run(nil, "findmnt", "-n", "-t", "fuse.rdmafs", "-M", dir).Code == 0
}
