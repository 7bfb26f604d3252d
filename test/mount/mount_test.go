package mount

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

func owner(st os.FileInfo) uint32 {
	if st == nil {
		return ^uint32(0)
	}
	return st.Sys().(*syscall.Stat_t).Uid
}

func TestTreeCopy(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t, w.server)
			m := s.mount(t, w.proto, w.words)
			from := SourceTree(t)
			CopyTree(t, from, filepath.Join(m.Dir, "tree"), nil)
			m.Umount(t)
			SameTree(t, filepath.Join(s.export, "tree"), from)
			m = s.mount(t, w.proto, w.words)
			SameTree(t, filepath.Join(m.Dir, "tree"), from)
			if err := os.RemoveAll(filepath.Join(m.Dir, "tree")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReadOnly(t *testing.T) {
	s := startServer(t, serverOptions{})
	if err := os.WriteFile(filepath.Join(s.export, "f"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := s.mount(t, "rdma", "ro")
	if b, err := os.ReadFile(filepath.Join(m.Dir, "f")); err != nil || string(b) != "content" {
		t.Errorf("read %q, %v", b, err)
	}
	for what, err := range map[string]error{
		"create": os.WriteFile(filepath.Join(m.Dir, "g"), nil, 0o644),
		"mkdir":  os.Mkdir(filepath.Join(m.Dir, "d"), 0o755),
		"remove": os.Remove(filepath.Join(m.Dir, "f")),
		"chmod":  os.Chmod(filepath.Join(m.Dir, "f"), 0o600),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v, want EROFS", what, err)
		}
	}
}

// TestUmountBusy: umount says that files are open, changes nothing, and later
// succeeds with everything written.
func TestUmountBusy(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "rdma", "")
	f, err := os.Create(filepath.Join(m.Dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("unwritten"); err != nil {
		t.Fatal(err)
	}
	checkFailure(t, Command(t, nil, "umount", m.Dir), fail, "busy", m.Dir)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m.Umount(t)
	if b, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || string(b) != "unwritten" {
		t.Errorf("on the server: %q, %v", b, err)
	}
	if _, mounted, err := mounttable.Find(m.Dir); mounted || err != nil {
		t.Errorf("still mounted (%v)", err)
	}
}

// TestLazyUmountKeepsOpenFiles: the daemon goes on for a file that is open, and
// its bytes arrive.
func TestLazyUmountKeepsOpenFiles(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "rdma", "")
	f, err := os.Create(filepath.Join(m.Dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if r := Command(t, nil, "umount", "-l", m.Dir); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	if _, err := f.WriteString("after the umount"); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || string(b) != "after the umount" {
		t.Errorf("on the server: %q, %v", b, err)
	}
}

// TestShortForm: "rdmafs SRC MNT -o OPTS", as mount(8) runs it.
func TestShortForm(t *testing.T) {
	s := startServer(t, serverOptions{})
	dir := t.TempDir()
	if r := Command(t, nil, s.source(), dir, "-o", s.words("rdma", "")+",dev,suid"); r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	m := &Mounted{Dir: dir}
	e, ok, err := mounttable.Find(dir)
	if !ok || err != nil || e.Type != "fuse.rdmafs" || e.Source != s.source() {
		t.Errorf("mount table: %+v, %v", e, err)
	}
	m.Umount(t)
}

// TestForeground: -f logs to standard error and ends on SIGTERM.
func TestForeground(t *testing.T) {
	s := startServer(t, serverOptions{})
	dir := t.TempDir()
	cmd := exec.Command(Binary(t), "mount", "-f", s.source(), dir, "-o", s.words("rdma", ""))
	var log bytes.Buffer
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	// The first line of the log says that the mount is usable.
	buf := make([]byte, 4096)
	for !strings.Contains(log.String(), "mounted") {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("the log ended: %q", log.String())
		}
		log.Write(buf[:n])
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v; log %q", err, log.String())
	}
	r.Close()
	if _, mounted, err := mounttable.Find(dir); mounted || err != nil {
		t.Errorf("still mounted (%v)", err)
	}
}

// TestStatsText: the text of "rdmafs stats" and "rdmafs status" that people and
// the demo read.
func TestStatsText(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "rdma", "rdmavers=2")
	Exercise(t, m.Dir)
	r := Command(t, nil, "stats", m.Dir)
	for _, want := range []string{s.source(), m.Dir, "rdma/iwarp", "version 2, inline threshold 4096", "receive size 4096", "with a read chunk", "Position-Zero", "by write chunk", "reply chunk", "credits"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("stats (exit code %d) does not say %q:\n%s%s", r.Code, want, r.Stdout, r.Stderr)
		}
	}
	r = Command(t, nil, "status", m.Dir)
	for _, want := range []string{s.source(), m.Dir, "rdma/iwarp", "keys: window",
		"version 2, inline threshold 4096", "receive size 4096", "rsize", "hard", "read-write", "up to 128 MiB"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("status (exit code %d) does not say %q:\n%s%s", r.Code, want, r.Stdout, r.Stderr)
		}
	}
}

// TestMountCommand: mount(8) runs us as for an fstab line of type fuse.rdmafs;
// the form "program#source" spares an installation in its fixed PATH.
func TestMountCommand(t *testing.T) {
	if _, err := exec.LookPath("mount.fuse3"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and mount.fuse3")
	}
	s := startServer(t, serverOptions{})
	dir := filepath.Join(t.TempDir(), "with space")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"", "ro,noatime,_netdev,nofail,x-systemd.automount", "nosuid,nodev,allow_other"} {
		cmd := exec.Command("mount", "-t", "fuse", Binary(t)+"#"+s.source(), dir, "-o", s.words("rdma", words))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", words, err, out)
		}
		m := &Mounted{Dir: dir}
		if st := m.Stats(t); st.Calls == 0 {
			t.Errorf("%q: no calls", words)
		}
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%q: umount: %v: %s", words, err, out)
		}
	}
}
