package mount

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSocketDirTaken: whatever another user has put where an ordinary user's
// control sockets would be, the mount works, and all commands find it.
func TestSocketDirTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as two users")
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	for what, squat := range map[string]func(name string) error{
		"directory": func(name string) error { return os.Mkdir(name, 0o755) },
		"file":      func(name string) error { return os.WriteFile(name, nil, 0o644) },
		"link":      func(name string) error { return os.Symlink("/etc", name) },
	} {
		t.Run(what, func(t *testing.T) {
			tmp, err := os.MkdirTemp("", "rdmafs-tmp.")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(tmp)
			if err := os.Chmod(tmp, 0o1777); err != nil {
				t.Fatal(err)
			}
			if err := squat(filepath.Join(tmp, "rdmafs-65534")); err != nil {
				t.Fatal(err)
			}
			root := []string{"env", "TMPDIR=" + tmp}
			user := append(append([]string(nil), nobody...), root...)
			m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: user, Dir: userDir(t)})
			for _, w := range [][]string{user, root} {
				for _, command := range []string{"status", "stats", "sync"} {
					if r := Command(t, w, command, m.Dir); r.Code != 0 {
						t.Errorf("%s by %q: exit code %d, %s", command, w, r.Code, r.Stderr)
					}
				}
			}
			_, exited := daemon(t, m)
			m.Umount(t)
			exited()
		})
	}
}
