package mount

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// sharedMount is a mount that root makes for everybody. It skips the test where
// we cannot act as two users.
func sharedMount(t testing.TB, s *server, proto, words string) *Mounted {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as two users")
	}
	m := Mount(t, s.source(), Options{Words: s.words(proto, words)})
	if err := os.Chmod(filepath.Dir(m.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// asNobody is a command of an ordinary user.
func asNobody(args ...string) *exec.Cmd {
	return exec.Command(nobody[0], append(append([]string(nil), nobody[1:]...), args...)...)
}

// reads reports whether an ordinary user can read a file, and fails the test if
// that fails for another reason than permission.
func reads(t *testing.T, file string) bool {
	t.Helper()
	out, err := asNobody("cat", file).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Permission denied") {
		t.Errorf("cat %s: %v: %s", file, err, out)
	}
	return err == nil
}

// makeDir makes a directory with the modes of mkdir and one file inside, and
// has root's look at it reach the kernel.
func makeDir(t testing.TB, dir string, mode os.FileMode) (file string) {
	t.Helper()
	if err := os.MkdirAll(dir, mode); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// denyByACL gives a directory on the server a POSIX access control list that
// shuts one user out, though the mode says 0755 (acl(5); the kernel's form of
// system.posix_acl_access is version 2, then tag, permissions and id of each
// entry).
func denyByACL(t *testing.T, dir string, uid uint32) {
	t.Helper()
	const undefined = ^uint32(0)
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, undefined}, {0x02, 0, uid}, {0x04, 5, undefined}, {0x10, 5, undefined}, {0x20, 5, undefined}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	err := unix.Setxattr(dir, "system.posix_acl_access", acl, 0)
	if err == unix.EOPNOTSUPP {
		t.Skipf("%s has no access control lists", dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o755 {
		t.Fatalf("mode %v, %v: it should not show the denial", st.Mode(), err)
	}
}

// TestWalkRights: with allow_other no user walks through a directory that he may
// not search, even if another user has just done so.
func TestWalkRights(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	m := sharedMount(t, s, "tcp", "allow_other,actimeo=600")

	t.Run("chmod here", func(t *testing.T) {
		dir := filepath.Join(m.Dir, "open")
		deep := makeDir(t, filepath.Join(dir, "sub", "sub"), 0o755)
		if !reads(t, deep) {
			t.Fatal("an open directory is shut")
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if reads(t, deep) {
			t.Error("an ordinary user reads below a directory that has just become 0700")
		}
		if _, err := os.ReadFile(deep); err != nil {
			t.Errorf("root: %v", err)
		}
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
		if !reads(t, deep) {
			t.Error("a directory that may be searched again is shut")
		}
	})
	t.Run("moved in", func(t *testing.T) {
		makeDir(t, filepath.Join(m.Dir, "vault"), 0o700)
		file := makeDir(t, filepath.Join(m.Dir, "outside"), 0o755)
		if !reads(t, file) {
			t.Fatal("an open directory is shut")
		}
		moved := filepath.Join(m.Dir, "vault", "moved")
		if err := os.Rename(file, moved); err != nil {
			t.Fatal(err)
		}
		if reads(t, moved) {
			t.Error("an ordinary user reads a file that was moved into a 0700 directory")
		}
		tree := filepath.Join(m.Dir, "vault", "tree")
		if err := os.Rename(filepath.Join(m.Dir, "outside"), tree); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(moved, filepath.Join(tree, "file")); err != nil {
			t.Fatal(err)
		}
		if reads(t, filepath.Join(tree, "file")) {
			t.Error("an ordinary user reads below a directory that was moved into a 0700 directory")
		}
	})
	t.Run("server's list", func(t *testing.T) {
		if err := os.Mkdir(filepath.Join(s.export, "listed"), 0o755); err != nil {
			t.Fatal(err)
		}
		denyByACL(t, filepath.Join(s.export, "listed"), 65534)
		file := makeDir(t, filepath.Join(m.Dir, "listed"), 0o755)
		if reads(t, file) {
			t.Error("an ordinary user reads below a directory whose access control list shuts him out")
		}
	})
}

// TestWalkAsksNobody: what a user walks through again, and what two users walk
// through in turn, costs no call to the server.
func TestWalkAsksNobody(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	m := sharedMount(t, s, "tcp", "allow_other,actimeo=600")
	file := makeDir(t, filepath.Join(m.Dir, "a", "b", "c", "d"), 0o755)
	stats := func(n int) string {
		return fmt.Sprintf("for i in $(seq %d); do [ -e %[2]s ] && [ ! -e %[2]s-none ] || exit 1; done", n, file)
	}
	walk := func(n int) {
		t.Helper()
		for _, cmd := range []*exec.Cmd{exec.Command("sh", "-c", stats(n)), asNobody("sh", "-c", stats(n))} {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	walk(1)
	before := m.Stats(t).Calls
	walk(50)
	if n := m.Stats(t).Calls - before; n != 0 {
		t.Errorf("%d calls for 200 walks of known paths", n)
	}
}

// TestRefusalKeepsMounts: a user who is refused on his way does not thereby
// unmount what others have mounted further down.
func TestRefusalKeepsMounts(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	m := sharedMount(t, s, "tcp", "allow_other")
	point := filepath.Join(m.Dir, "vault", "sub", "point")
	makeDir(t, filepath.Join(m.Dir, "vault"), 0o700)
	makeDir(t, point, 0o755)
	for range 3 {
		run(t, nil, "mount", "-t", "tmpfs", "tmpfs", point)
		for _, way := range []string{"vault/sub", "vault/sub/point", "vault/file", "vault/none"} {
			if asNobody("ls", filepath.Join(m.Dir, way)).Run() == nil {
				t.Errorf("an ordinary user sees %s", way)
			}
		}
		if _, mounted, err := mounttable.Find(point); !mounted || err != nil {
			t.Fatalf("a user who was refused has unmounted what was below (%v)", err)
		}
		run(t, nil, "umount", point)
		if reads(t, filepath.Join(point, "file")) {
			t.Error("an ordinary user walks through a 0700 directory")
		}
	}
}

// TestDefaultPermissions: the kernel checks modes itself, at once after a change
// made here, and steps of a path are not asked for.
func TestDefaultPermissions(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	m := sharedMount(t, s, "tcp", "allow_other,default_permissions,actimeo=600")
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || !bytes.Contains(b, []byte("default_permissions")) {
		t.Errorf("the mount table does not show the option (%v)", err)
	}
	dir := filepath.Join(m.Dir, "open")
	file := makeDir(t, dir, 0o755)
	if !reads(t, file) {
		t.Fatal("an open directory is shut")
	}
	moved := filepath.Join(m.Dir, "vault", "moved")
	makeDir(t, filepath.Join(m.Dir, "vault"), 0o700)
	if err := os.Rename(file, moved); err != nil {
		t.Fatal(err)
	}
	if reads(t, moved) {
		t.Error("an ordinary user reads a file that was moved into a 0700 directory")
	}
	if err := os.Rename(moved, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if reads(t, file) {
		t.Error("an ordinary user reads below a directory that has just become 0700")
	}
	// What the server refuses at open stays refused, whatever the mode says.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if reads(t, file) {
		t.Error("an ordinary user reads a file of mode 0600")
	}
}
