package mount

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVersion4Nested mounts a directory of the server's pseudo file system, below which two of its file systems are
// entered: each has its own size, no two files have one number, and what cannot go from one to the other says so.
func TestVersion4Nested(t *testing.T) {
	inVersion4(t, func(t *testing.T, dir string) {
		newServer4(t, dir, stoppedLease)
		for _, vers := range []string{"4.1", "4.2"} {
			t.Run(vers, func(t *testing.T) {
				m := Mount(t, "127.0.0.1:/export", Options{Words: "proto=tcp,vers=" + vers})
				nested4(t, m.Dir)
			})
		}
	})
}

func nested4(t *testing.T, root string) {
	parts := []string{filepath.Join(root, "data"), filepath.Join(root, "second")}
	const files = 50
	for _, dir := range parts {
		for i := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file", i)), []byte(dir), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	numbers := map[uint64]string{}
	number := func(path string) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		if other, ok := numbers[st.Ino]; ok {
			t.Errorf("%s and %s have the number %d", other, path, st.Ino)
		}
		numbers[st.Ino] = path
	}
	number(root)
	listed, err := os.ReadDir(root)
	if err != nil || len(listed) != 2 {
		t.Errorf("listed: %v, %v", listed, err)
	}
	for _, dir := range parts {
		number(dir)
		all, err := os.ReadDir(dir)
		if err != nil || len(all) != files {
			t.Errorf("%s has %d entries: %v", dir, len(all), err)
		}
		for _, e := range all {
			path := filepath.Join(dir, e.Name())
			number(path)
			if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, []byte(dir)) {
				t.Errorf("%s: %q, %v", path, b, err)
			}
		}
		if up, err := os.ReadDir(filepath.Join(dir, "..")); err != nil || len(up) != 2 {
			t.Errorf("the directory above %s: %v, %v", dir, up, err)
		}
	}
	var sizes [2]unix.Statfs_t
	for i, dir := range parts {
		if err := unix.Statfs(dir, &sizes[i]); err != nil {
			t.Fatal(err)
		}
	}
	if sizes[0].Blocks == sizes[1].Blocks && sizes[0].Files == sizes[1].Files {
		t.Errorf("both file systems have %d blocks and %d files", sizes[0].Blocks, sizes[0].Files)
	}
	from, to := filepath.Join(parts[0], "file0"), filepath.Join(parts[1], "moved")
	if err := os.Rename(from, to); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("a rename to the other file system: %v, want EXDEV", err)
	}
	if err := os.Link(from, to); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("a link in the other file system: %v, want EXDEV", err)
	}
	if err := copyAcross(from, to); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(to); err != nil || string(b) != parts[0] {
		t.Errorf("copied: %q, %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(root, "none"), nil, 0o644); err == nil {
		t.Error("made in the pseudo file system")
	}
	for _, dir := range parts {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range all {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				t.Error(err)
			}
		}
	}
}

// copyAcross copies by copy_file_range, which the kernel does itself where the server does not.
func copyAcross(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := w.ReadFrom(r); err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Close()
}
