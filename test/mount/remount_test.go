package mount

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/privilege"
	"github.com/rdmafs/rdmafs/internal/status"
)

// inForce is what status says of a mount.
func (m *Mounted) inForce(t *testing.T) (s status.InForce) {
	t.Helper()
	r := Command(t, m.wrapper, "status", "--json", m.Dir)
	if r.Code != 0 {
		t.Fatalf("status: exit code %d: %s", r.Code, r.Stderr)
	}
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatalf("status: %v in %q", err, r.Stdout)
	}
	return s
}

func (m *Mounted) remount(t *testing.T, words string) {
	t.Helper()
	if r := Command(t, m.wrapper, "mount", "-o", "remount,"+words, m.Dir); r.Code != 0 {
		t.Fatalf("remount,%s: exit code %d: %s", words, r.Code, r.Stderr)
	}
}

// TestRemountReadOnly: a mount becomes read-only, not while files are open for writing, and
// writable again; where this process may not tell the kernel, the daemon refuses changes.
func TestRemountReadOnly(t *testing.T) {
	for _, who := range []struct {
		name    string
		wrapper []string
	}{{"own", nil}, {"ordinary user", asUser(t)}} {
		t.Run(who.name, func(t *testing.T) {
			s := startServer(t, serverOptions{mode: 0o1777})
			m := Mount(t, s.source(), Options{Words: s.words("tcp", ""), Wrapper: who.wrapper, Dir: userDir(t)})
			as := func(script string) error {
				out, err := command(who.wrapper, "sh", "-c", script).CombinedOutput()
				if err != nil {
					return errors.New(string(out))
				}
				return nil
			}
			path := filepath.Join(m.Dir, "f")
			if err := as("echo before > " + path); err != nil {
				t.Fatal(err)
			}
			writer := startTalk(t, command(who.wrapper, "sh", "-c", "exec 3>>"+path+"; echo opened; cat"))
			writer.await("opened")
			r := Command(t, who.wrapper, "mount", "-o", "remount,ro,soft", m.Dir)
			checkFailure(t, r, fail, m.Dir, "not changed", "open for writing")
			if f := m.inForce(t); f.ReadOnly || f.Soft {
				t.Errorf("after a remount that failed: %+v", f)
			}
			writer.end()
			if err := writer.cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			m.remount(t, "ro,soft,timeo=70")
			if f := m.inForce(t); !f.ReadOnly || !f.Soft || f.Timeo != 7 {
				t.Errorf("after remount,ro,soft,timeo=70: %+v", f)
			}
			for _, script := range []string{"echo more >> " + path, "mkdir " + path + ".dir", "rm " + path, "mv " + path + " " + path + ".new",
				"chmod 600 " + path, "ln " + path + " " + path + ".link", "ln -s x " + path + ".symlink", "mkfifo " + path + ".fifo",
				"echo new > " + path + ".new", "touch " + path, ": > " + path} {
				if err := as(script); err == nil || !strings.Contains(err.Error(), "ead-only file system") {
					t.Errorf("%s: %v", script, err)
				}
			}
			if e, ok, err := mounttable.Find(m.Dir); !ok || err != nil || who.wrapper == nil && privilege.MayMount() && !e.ReadOnly {
				t.Errorf("mount table: %+v, %v", e, err)
			}
			if err := as("grep -qx before " + path); err != nil {
				t.Error(err)
			}
			if who.wrapper == nil && privilege.MayMount() {
				// What only the kernel was told, status knows and a remount ends.
				m.remount(t, "rw")
				if err := syscall.Mount("", m.Dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
					t.Fatal(err)
				}
				if !m.inForce(t).ReadOnly {
					t.Error("status does not know that the kernel has it read-only")
				}
			}
			m.remount(t, "rw")
			if f := m.inForce(t); f.ReadOnly || !f.Soft {
				t.Errorf("after remount,rw: %+v", f)
			}
			if err := as("echo after > " + path); err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile(filepath.Join(s.export, "f"))
			if err != nil || string(b) != "after\n" {
				t.Errorf("the server has %q, %v", b, err)
			}
		})
	}
}

// TestRemountRefuses: what cannot be changed is named, and then nothing changes; what has the
// value that it is given is no change.
func TestRemountRefuses(t *testing.T) {
	s := startServer(t, serverOptions{})
	words := s.words("tcp", "rsize=65536")
	m := Mount(t, s.source(), Options{Words: words})
	m.remount(t, words+",soft,user_id=0,max_read=1048576")
	before := m.inForce(t)
	r := Command(t, nil, "mount", "-o", "remount,hard,rsize=4096,noddp,actimeo=1", m.Dir)
	checkFailure(t, r, fail, "rsize=4096", "noddp", "unmount")
	if strings.Contains(r.Stderr, "actimeo") {
		t.Errorf("it complains of what can be changed: %s", r.Stderr)
	}
	if after := m.inForce(t); after != before || !after.Soft {
		t.Errorf("%+v became %+v", before, after)
	}
	checkFailure(t, Command(t, nil, "mount", "-o", "remount,frobnicate", m.Dir), fail, "frobnicate")
	checkFailure(t, Command(t, nil, "mount", "-o", "remount,ro", "other:/export", m.Dir), usage, "other:/export", s.source())
	checkFailure(t, Command(t, nil, "mount", "-o", "remount,ro", t.TempDir()), usage, "no mount of rdmafs")
	checkFailure(t, Command(t, nil, "mount", "-o", "remount,acregmin=61", m.Dir), fail, "acregmin")
	m.remount(t, "debug")
	if !m.inForce(t).Debug {
		t.Error("debug is not in force")
	}
	if r := Command(t, nil, "mount", "-o", "remount", "--debug=false", s.source(), m.Dir); r.Code != 0 || m.inForce(t).Debug {
		t.Errorf("--debug=false: %+v", r)
	}
}

// TestRemountTimes: what the kernel and the cache believed by the old times is not believed any
// more.
func TestRemountTimes(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "tcp", "actimeo=3600")
	for _, d := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(s.export, d), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(m.Dir, d)); err != nil {
			t.Fatal(err)
		}
	}
	m.remount(t, "noac")
	if f := m.inForce(t); !f.Attributes.NoAC {
		t.Errorf("%+v", f.Attributes)
	}
	if err := os.Truncate(filepath.Join(s.export, "a"), 100); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.export, "b")); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(m.Dir, "a")); err != nil || st.Size() != 100 {
		t.Errorf("after noac: %v, %v", st, err)
	}
	if _, err := os.Stat(filepath.Join(m.Dir, "b")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after noac, a removed file: %v", err)
	}
	m.remount(t, "ac,actimeo=3600")
	if f := m.inForce(t); f.Attributes.NoAC || f.Attributes.AcRegMin != 3600 {
		t.Errorf("%+v", f.Attributes)
	}
	if _, err := os.Stat(filepath.Join(m.Dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(s.export, "a"), 200); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(m.Dir, "a")); err != nil || st.Size() != 100 {
		t.Errorf("after actimeo=3600: %v, %v", st, err)
	}
}

// TestRemountByMountCommand: mount(8) has its helper remount what fstab or the mount table
// shows as of type fuse.rdmafs.
func TestRemountByMountCommand(t *testing.T) {
	if _, err := exec.LookPath("mount.fuse3"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and mount.fuse3")
	}
	s := startServer(t, serverOptions{})
	dir := t.TempDir()
	if os.Getenv(isolatedEnv) == "" {
		t.Skip("needs a mount namespace of its own: the helper finds rdmafs in its fixed PATH only")
	}
	const installed = "/usr/local/bin"
	if err := syscall.Mount(filepath.Dir(Binary(t)), installed, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("cannot have rdmafs in %s: %v", installed, err)
	}
	defer syscall.Unmount(installed, 0)
	for _, withTable := range []bool{true, false} {
		m := Mount(t, s.source(), Options{Words: s.words("tcp", ""), Dir: dir})
		fstab := filepath.Join(t.TempDir(), "fstab")
		line := ""
		if withTable {
			line = s.source() + " " + dir + " fuse.rdmafs _netdev,noauto," + s.words("tcp", "") + " 0 0\n"
		}
		if err := os.WriteFile(fstab, []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			words string
			want  func(status.InForce) bool
		}{
			{"ro", func(f status.InForce) bool { return f.ReadOnly }},
			{"rw,noatime", func(f status.InForce) bool { return !f.ReadOnly }},
			{"noac", func(f status.InForce) bool { return f.Attributes.NoAC && !f.ReadOnly }},
		} {
			out, err := exec.Command("mount", "-T", fstab, "-o", "remount,"+c.words, dir).CombinedOutput()
			if err != nil {
				t.Fatalf("mount -o remount,%s: %v: %s", c.words, err, out)
			}
			if f := m.inForce(t); !c.want(f) {
				t.Errorf("after %s: %+v", c.words, f)
			}
		}
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil || st.Flags&syscall.MS_NOATIME == 0 && !withTable {
			t.Errorf("flags %#x, %v", st.Flags, err)
		}
		m.Umount(t)
	}
}
