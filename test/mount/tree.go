package mount

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Sums is the SHA-256 of every file below dir, links by their targets.
func Sums(t testing.TB, dir string) map[string][32]byte {
	t.Helper()
	all := make(map[string][32]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all[rel] = sha256.Sum256([]byte(target))
			return err
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			all[rel] = sha256.Sum256(b)
			return err
		}
		all[rel] = [32]byte{}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// SameTree fails the test unless both directories hold the same.
func SameTree(t testing.TB, got, want string) {
	t.Helper()
	a, b := Sums(t, got), Sums(t, want)
	for name, sum := range b {
		if other, ok := a[name]; !ok {
			t.Errorf("%s: missing in %s", name, got)
		} else if other != sum {
			t.Errorf("%s: content differs in %s", name, got)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%s has %d entries, %s has %d", got, len(a), want, len(b))
	}
}

// SourceTree is a real tree to copy: TreeEnv, or a part of Go's own source.
func SourceTree(t testing.TB) string {
	t.Helper()
	if tree := os.Getenv(TreeEnv); tree != "" {
		return tree
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src", "net")
	if _, err := os.Stat(root); err != nil {
		t.Fatalf("Go's source is not installed: %v", err)
	}
	return root
}

// CopyTree copies from to to, which must not exist, and reports each file.
func CopyTree(t testing.TB, from, to string, each func(n int)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, rel), b, 0o644); err != nil {
			return err
		}
		n++
		if each != nil {
			each(n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Exercise makes a mount use every kind of call: small and large reads and
// writes, long symlinks, and listings longer than any inline threshold.
func Exercise(t testing.TB, dir string) {
	t.Helper()
	big := make([]byte, 3<<20+17)
	rand.NewChaCha8([32]byte{1}).Read(big)
	name := filepath.Join(dir, "big")
	if err := os.WriteFile(name, big, 0o644); err != nil {
		t.Fatal(err)
	}
	target := strings.Repeat("y", 4000)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); err != nil || got != target {
		t.Errorf("symlink of %d bytes came back with %d, %v", len(target), len(got), err)
	}
	sub := filepath.Join(dir, "many")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("a-rather-long-name-%04d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := os.ReadDir(sub); err != nil || len(list) != 300 {
		t.Errorf("%d of 300 entries listed, %v", len(list), err)
	}
	// Read it past the kernel's cache, which the write filled.
	if err := DropCache(name); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, big) {
		t.Errorf("big file: %d bytes came back, or other content; %v", len(got), err)
	}
	if err := os.RemoveAll(sub); err != nil {
		t.Error(err)
	}
	for _, n := range []string{name, link} {
		if err := os.Remove(n); err != nil {
			t.Error(err)
		}
	}
}

// DropCache makes the kernel forget the pages of one file.
func DropCache(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
