package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/rights"
)

// TestRights: users may do on a mount what they may on a local file system, as whom the
// server takes them for, and no more.
func TestRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as several users")
	}
	for _, e := range []struct {
		name   string
		server serverOptions
		as     func(rights.User) rights.User
		every  int
	}{
		{"no_root_squash", serverOptions{}, func(u rights.User) rights.User { return u }, 1},
		{"root_squash", serverOptions{squashRoot: true}, func(u rights.User) rights.User {
			if u.UID == 0 {
				return rights.Other
			}
			return u
		}, 3},
		{"all_squash", serverOptions{squashAll: true}, func(rights.User) rights.User { return rights.Other }, 4},
	} {
		for _, d := range []struct {
			mode  os.FileMode
			words string
			every int
		}{{0o755, "allow_other", 1}, {0o755, "allow_other,default_permissions", 1}, {0o700, "allow_other", 3}, {0o700, "allow_other,default_permissions", 3}} {
			t.Run(fmt.Sprintf("%s/%04o/%s", e.name, d.mode, d.words), func(t *testing.T) {
				s := startServer(t, e.server)
				rights.Run(t, rights.Config{
					Backing: s.export, Oracle: openDir(t), Mode: d.mode, As: e.as,
					Mount:  func() string { return sharedMount(t, s, "tcp", d.words).Dir },
					Kernel: d.words != "allow_other", Every: max(d.every, e.every),
				})
			})
		}
	}
	t.Run("a user's own mount", func(t *testing.T) {
		s := startServer(t, serverOptions{})
		rights.Run(t, rights.Config{
			Backing: openUp(t, s.export), Oracle: openDir(t), Mode: 0o755, As: func(u rights.User) rights.User { return u },
			Every: 3, Alone: rights.Other, // nobody: fusermount3 mounts for users who have a name
			Mount: func() string {
				return Mount(t, s.source(), Options{Words: s.words("tcp", "actimeo=0"), Wrapper: asUser(t), Dir: userDir(t)}).Dir
			},
		})
	})
}

// TestDevices: a mount for all users whose kernel checks no modes opens no device,
// whatever mount(8) asks for; one whose kernel does opens those that the mode allows.
func TestDevices(t *testing.T) {
	s := startServer(t, serverOptions{})
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes devices")
	}
	for name, mode := range map[string]uint32{"all": 0o666, "roots": 0o600} {
		file := filepath.Join(s.export, name)
		if err := unix.Mknod(file, unix.S_IFCHR|mode, int(unix.Mkdev(1, 3))); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, os.FileMode(mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		words, opens string
	}{
		{"allow_other,dev", ""},
		{"allow_other,dev,default_permissions", "root:all root:roots nobody:all "},
		{"allow_other,default_permissions", ""},
		{"dev", "root:all root:roots "},
	} {
		t.Run(c.words, func(t *testing.T) {
			m := sharedMount(t, s, "tcp", c.words)
			opens := ""
			for _, u := range []struct {
				name    string
				wrapper []string
			}{{"root", nil}, {"nobody", nobody}} {
				for _, name := range []string{"all", "roots"} {
					out, err := command(u.wrapper, "cat", filepath.Join(m.Dir, name)).CombinedOutput()
					if err == nil {
						opens += u.name + ":" + name + " "
					} else if !strings.Contains(string(out), "Permission denied") {
						t.Errorf("%s by %s: %s", name, u.name, out)
					}
				}
			}
			if opens != c.opens {
				t.Errorf("opened: %q, want %q", opens, c.opens)
			}
		})
	}
}

// openDir is a temporary directory that all users can reach.
func openDir(t *testing.T) string { return openUp(t, t.TempDir()) }

func openUp(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
