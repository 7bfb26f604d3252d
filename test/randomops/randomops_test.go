package randomops

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLocal: two local directories do not differ, and do after one byte of one has changed.
func TestLocal(t *testing.T) {
	c := Config{Mount: t.TempDir(), Local: t.TempDir(), Seed: 1, Ops: 4000, NoDirect: true}
	if err := Run(c); err != nil {
		t.Fatal(err)
	}
	if err := Same(c.Mount, c.Local); err != nil {
		t.Fatal(err)
	}
	changed := errors.New("changed")
	err := filepath.Walk(c.Mount, func(path string, st os.FileInfo, err error) error {
		if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, st.Size()-1); err != nil {
			return err
		}
		b[0]++
		if _, err := f.WriteAt(b, st.Size()-1); err != nil {
			return err
		}
		return changed
	})
	if err != changed {
		t.Fatal(err)
	}
	if err := Same(c.Mount, c.Local); err == nil || !strings.Contains(err.Error(), "byte ") {
		t.Errorf("the changed byte: %v", err)
	}
}

// TestDifferent: a call that fails on one side alone ends the run, and so does one that gives other data, another
// size, or another name.
func TestDifferent(t *testing.T) {
	w := &worker{roots: [2]string{t.TempDir(), t.TempDir()}}
	for _, c := range []struct {
		name, want string
		make       func(dir string) error
	}{
		{"missing", "no such file", func(dir string) error { return nil }},
		{"size", "size 3, locally 4", func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("abc"), 0o644) }},
		{"data", "byte 0 is", func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("Abcd"), 0o644) }},
		{"mode", "mode 0100600, locally 0100644", func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("abcd"), 0o600) }},
		{"links", "2 links, locally 1", func(dir string) error {
			err := os.WriteFile(filepath.Join(dir, "f"), []byte("abcd"), 0o644)
			return errors.Join(err, os.Link(filepath.Join(dir, "f"), filepath.Join(filepath.Dir(dir), "other")))
		}},
		{"kind", "mode 010644, locally 0100644", func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "f"), 0o644) }},
	} {
		for k, root := range w.roots {
			dir := filepath.Join(root, c.name)
			err := os.Mkdir(dir, 0o755)
			if k == 0 {
				err = errors.Join(err, c.make(dir))
			} else {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, "f"), []byte("abcd"), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		err := w.sameEntry(filepath.Join(c.name, "f"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := w.differ([2]error{unix.EIO, nil}); err == nil {
		t.Error("EIO and success are the same")
	}
}
