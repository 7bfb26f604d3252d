package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestDirectoryReplacedOnServer: when a tree was removed on the server and made
// anew with the same names, the first use of a path below it finds the new one,
// though the old names are believed for longer.
func TestDirectoryReplacedOnServer(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := Mount(t, s.source(), Options{Words: s.words("tcp", "")})
	for n, c := range []struct {
		name string
		use  func(path string) error
	}{
		{"open", func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil && string(b) != "new" {
				err = fmt.Errorf("read %q", b)
			}
			return err
		}},
		{"append", func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}},
		{"create", func(path string) error { return os.WriteFile(path+".more", nil, 0o644) }},
		{"mkdir", func(path string) error { return os.Mkdir(path+".dir", 0o755) }},
		{"readdir", func(path string) error {
			l, err := os.ReadDir(filepath.Dir(path))
			if err == nil && len(l) != 1 {
				err = fmt.Errorf("%d entries", len(l))
			}
			return err
		}},
		{"chmod", func(path string) error { return os.Chmod(path, 0o600) }},
		{"truncate", func(path string) error { return os.Truncate(path, 1) }},
		{"unlink", os.Remove},
		{"rename", func(path string) error { return os.Rename(path, path+".new") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := fmt.Sprintf("top%d", n)
			make := func(content string) {
				if err := os.MkdirAll(filepath.Join(s.export, top, "a", "b"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(s.export, top, "a", "b", "f"), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			make("old")
			path := filepath.Join(m.Dir, top, "a", "b", "f")
			if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
				t.Fatalf("before: %q, %v", b, err)
			}
			if err := os.RemoveAll(filepath.Join(s.export, top)); err != nil {
				t.Fatal(err)
			}
			make("new")
			if err := c.use(path); err != nil {
				t.Error(err)
			}
		})
	}
}
