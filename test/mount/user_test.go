package mount

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/test/posix"
)

// nobody runs a command as an ordinary user.
var nobody = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR", "HOME=/nonexistent"}

// asUser is the wrapper for running as an ordinary user: none when we are one.
func asUser(t *testing.T) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Fatal("setpriv is missing (package util-linux)")
	}
	return nobody
}

// userDir is a directory of the ordinary user.
func userDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rdmafs-user.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOrdinaryUserMounts mounts without privileges, works on the mount as that
// user, and unmounts.
func TestOrdinaryUserMounts(t *testing.T) {
	if _, err := exec.LookPath("fusermount3"); err != nil {
		t.Fatal("fusermount3 is missing (package fuse3)")
	}
	wrapper := asUser(t)
	s := startServer(t, serverOptions{mode: 0o1777})
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			m := Mount(t, s.source(), Options{Words: s.words(proto, ""), Wrapper: wrapper, Dir: userDir(t)})
			// The mount is the user's alone: the tree is copied in as that user.
			run(t, wrapper, "cp", "-r", SourceTree(t), filepath.Join(m.Dir, "tree"))
			run(t, wrapper, "diff", "-r", SourceTree(t), filepath.Join(m.Dir, "tree"))
			if os.Geteuid() == 0 {
				if _, err := os.Stat(m.Dir); err == nil {
					t.Error("root sees another user's mount without allow_other")
				}
			}
			if st := m.Stats(t); st.Calls == 0 {
				t.Errorf("no calls: %+v", st)
			}
			m.Umount(t)
			SameTree(t, filepath.Join(s.export, "tree"), SourceTree(t))
			if err := os.RemoveAll(filepath.Join(s.export, "tree")); err != nil {
				t.Error(err)
			}
		})
	}
}

func run(t *testing.T, wrapper []string, args ...string) {
	t.Helper()
	line := append(append([]string(nil), wrapper...), args...)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", args, err, bytes.TrimSpace(out))
	}
}

func TestUserErrors(t *testing.T) {
	wrapper := asUser(t)
	s := startServer(t, serverOptions{})
	dir := userDir(t)
	checkFailure(t, Command(t, wrapper, "mount", s.source(), dir, "-o", s.words("rdma", "allow_other")), usage, "allow_other", "fuse.conf")
	words := s.words("rdma", "")
	tied := append([]string{"setpriv", "--no-new-privs"}, wrapper...)
	checkFailure(t, Command(t, tied, "mount", s.source(), dir, "-o", words), fail, "fusermount3", "no_new_privs")
	lost := append(append([]string(nil), wrapper...), "env", "XDG_RUNTIME_DIR=/nonexistent/dir")
	checkFailure(t, Command(t, lost, "mount", s.source(), dir, "-o", words), fail, "control sockets", "XDG_RUNTIME_DIR")
	if os.Geteuid() == 0 {
		bound := append([]string{"setpriv", "--bounding-set", "-sys_admin"}, wrapper...)
		checkFailure(t, Command(t, bound, "mount", s.source(), dir, "-o", words), fail, "fusermount3", "CAP_SYS_ADMIN", "container")
		secret, err := os.MkdirTemp("", "rdmafs-secret.")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(secret)
		checkFailure(t, Command(t, wrapper, "mount", s.source(), filepath.Join(secret, "x"), "-o", words), fail, "user 65534 may not")
		foreign, err := os.MkdirTemp("", "rdmafs-root.")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(foreign)
		if err := os.Chmod(foreign, 0o755); err != nil {
			t.Fatal(err)
		}
		checkFailure(t, Command(t, wrapper, "mount", s.source(), foreign, "-o", s.words("rdma", "")), fail, "fusermount3", "write access")
	}
}

// TestAllowOther: other users get in, as themselves, and through a directory
// only where the server lets them.
func TestAllowOther(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as two users")
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	m := s.mount(t, "rdma", "allow_other")
	if err := os.Chmod(filepath.Dir(m.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(m.Dir, 0o1777); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(m.Dir, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(secret, "file")
	if err := os.WriteFile(inside, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(inside); err != nil {
		t.Fatal(err) // and now the kernel knows the name
	}
	as := func(args ...string) error { return exec.Command(nobody[0], append(nobody[1:], args...)...).Run() }
	if err := as("cat", inside); err == nil {
		t.Error("an ordinary user read through a directory of root's with mode 700")
	}
	mine := filepath.Join(m.Dir, "mine")
	if err := as("sh", "-c", "echo y > "+mine); err != nil {
		t.Fatalf("an ordinary user cannot write: %v", err)
	}
	st, err := os.Stat(filepath.Join(s.export, "mine"))
	if err != nil || owner(st) != 65534 {
		t.Errorf("the file belongs to %d, %v", owner(st), err)
	}
	posix.Run(t, m.Dir)
}

// TestUserWithoutPath: mount(8) gives its helpers no PATH; fusermount3 is found all the
// same.
func TestUserWithoutPath(t *testing.T) {
	s := startServer(t, serverOptions{})
	wrapper := append(append([]string(nil), asUser(t)...), "env", "-i")
	m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: wrapper, Dir: userDir(t)})
	m.Umount(t)
}
