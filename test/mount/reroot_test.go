package mount

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestExportedAnew: a mount whose export was exported with another fsid, or whose directory
// was replaced, goes on with what is there now; what was open reports ESTALE.
func TestExportedAnew(t *testing.T) {
	anew := func(t *testing.T, s *server) {
		if err := s.Reexport(s.export, 4711); err != nil {
			t.Fatal(err)
		}
	}
	replaced := func(t *testing.T, s *server) {
		aside := s.export + "-aside"
		if err := os.Rename(s.export, aside); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(s.export, os.DirFS(aside)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(aside); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*testing.T, *server){"fsid": anew, "replaced": replaced} {
		for use, do := range map[string]func(m *Mounted) error{
			"stat root": func(m *Mounted) error { _, err := os.Stat(m.Dir); return err },
			"stat": func(m *Mounted) error {
				_, err := os.Stat(filepath.Join(m.Dir, "a", "b", "f"))
				return err
			},
			"create":      func(m *Mounted) error { return os.WriteFile(filepath.Join(m.Dir, "new"), nil, 0o644) },
			"mkdir below": func(m *Mounted) error { return os.Mkdir(filepath.Join(m.Dir, "a", "b", "new"), 0o755) },
			"list":        func(m *Mounted) error { _, err := os.ReadDir(m.Dir); return err },
			"statfs": func(m *Mounted) error {
				var st syscall.Statfs_t
				return syscall.Statfs(m.Dir, &st)
			},
		} {
			t.Run(name+"/"+use, func(t *testing.T) {
				s := startServer(t, serverOptions{})
				m := s.mount(t, "tcp", "actimeo=0")
				path := filepath.Join(m.Dir, "a", "b", "f")
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("content"), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(s.export, "a", "b", "g"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				open, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer open.Close()
				change(t, s)
				mounts := s.Stats().Mounts
				// Many find out at the same time.
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						if err := do(m); err != nil && !errors.Is(err, os.ErrExist) {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if n := s.Stats().Mounts - mounts; n != 1 {
					t.Errorf("%d MOUNTs, want 1", n)
				}
				if b, err := os.ReadFile(path); err != nil || string(b) != "content" {
					t.Errorf("by its path: %q, %v", b, err)
				}
				if _, err := open.Stat(); !errors.Is(err, syscall.ESTALE) {
					t.Errorf("fstat of what was open: %v", err)
				}
				// Not of what was known before: two inodes would have one number.
				st, err := os.Stat(filepath.Join(m.Dir, "a", "b", "g"))
				if err != nil {
					t.Fatal(err)
				}
				real, err := os.Stat(filepath.Join(s.export, "a", "b", "g"))
				if err != nil {
					t.Fatal(err)
				}
				if a, b := st.Sys().(*syscall.Stat_t).Ino, real.Sys().(*syscall.Stat_t).Ino; a != b {
					t.Errorf("inode number %d, the server's is %d", a, b)
				}
			})
		}
	}
}

// TestExportedAnewDirty: what was written and not sent is lost, and whoever wrote it is told.
func TestExportedAnewDirty(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "tcp", "")
	f, err := os.Create(filepath.Join(m.Dir, "dirty"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Reexport(s.export, 4712); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadDir(m.Dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, syscall.ESTALE) {
		t.Errorf("fsync: %v", err)
	}
}
