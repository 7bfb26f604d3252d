package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// automounter starts the real automount with a map of each kind in a namespace, and
// ends it with the test. Both lead to s.
func automounter(t *testing.T, h *helped, s *server, fstype, words string) (direct, indirect string) {
	t.Helper()
	dir := t.TempDir()
	direct, indirect = filepath.Join(dir, "direct"), filepath.Join(dir, "indirect")
	entry := fmt.Sprintf("-fstype=%s,%s %s\n", fstype, s.words("rdma", words), s.source())
	for name, text := range map[string]string{
		"master":       fmt.Sprintf("/- file:%s/map.direct --timeout=600\n%s file:%s/map.indirect --timeout=600\n", dir, indirect, dir),
		"map.direct":   direct + " " + entry,
		"map.indirect": "key " + entry,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pidFile := filepath.Join(dir, "pid")
	h.must(nil, "automount", "--pid-file", pidFile, filepath.Join(dir, "master"))
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	ended := awaitEnd(t, pid)
	t.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it unmounts what it has mounted
		ended()
	})
	return direct, filepath.Join(indirect, "key")
}

// TestAutofs: the real automounter mounts on first use, by direct and indirect maps, and
// as either type that mount(8) knows; and what it has mounted it unmounts again. The
// kernel lets whoever is not in the automounter's process group wait until it is done, so
// that this never ends if rdmafs is not there before it is.
func TestAutofs(t *testing.T) {
	if _, err := exec.LookPath("automount"); err != nil {
		t.Skipf("needs autofs: %v", err)
	}
	if _, err := os.Stat("/dev/autofs"); err != nil {
		t.Skipf("needs autofs in the kernel: %v", err)
	}
	for _, fstype := range []string{"fuse.rdmafs", "rdmafs"} {
		t.Run(fstype, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			if err := os.WriteFile(filepath.Join(s.export, "file"), []byte("data"), 0o644); err != nil {
				t.Fatal(err)
			}
			h := newHelped(t, "", "mount."+fstype)
			direct, indirect := automounter(t, h, s, fstype, "retry=0")
			for _, dir := range []string{direct, indirect} {
				if h.mounted(dir) {
					t.Errorf("%s is mounted before it is used", dir)
				}
				if got := h.must(nil, "cat", filepath.Join(dir, "file")); got != "data" {
					t.Errorf("%s: %q", dir, got)
				}
				if !h.mounted(dir) {
					t.Errorf("%s: read, and not mounted", dir)
				}
				h.must(nil, "sh", "-c", `echo more >"$0"`, filepath.Join(dir, "written"))
				h.must(nil, "umount", dir)
				if got := h.must(nil, "cat", filepath.Join(dir, "written")); got != "more\n" {
					t.Errorf("%s: %q, mounted again", dir, got)
				}
			}
		})
	}
}
