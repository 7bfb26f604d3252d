package mount

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenByHandle: open_by_handle_at finds files and directories that the kernel has forgotten, by
// what name_to_handle_at gave out; not those that were removed, and none of another mount.
func TestOpenByHandle(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: open_by_handle_at wants CAP_DAC_READ_SEARCH")
	}
	for _, words := range []string{"", "fuse=ring", "noac", "allow_other"} {
		t.Run("over="+words, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			m := s.mount(t, "tcp", words)
			dir := filepath.Join(m.Dir, "a", "b")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			handleOf := func(path string) unix.FileHandle {
				t.Helper()
				h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			const files = 500
			handles := make([]unix.FileHandle, files)
			for k := range handles {
				path := filepath.Join(dir, fmt.Sprint(k))
				if err := os.WriteFile(path, []byte(fmt.Sprint(k)), 0o644); err != nil {
					t.Fatal(err)
				}
				handles[k] = handleOf(path)
			}
			below, gone := handleOf(dir), handleOf(filepath.Join(dir, "0"))
			if err := os.Remove(filepath.Join(s.export, "a", "b", "0")); err != nil {
				t.Fatal(err)
			}
			// A name that was looked up again has the number that it had.
			if _, err := os.Stat(filepath.Join(dir, "1")); err != nil {
				t.Fatal(err)
			}
			forget := func() {
				t.Helper()
				if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0); err != nil {
					t.Skipf("cannot have the kernel forget: %v", err)
				}
			}
			forget()
			root, err := os.Open(m.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			for range 2 {
				for k, h := range handles[1:] {
					fd, err := unix.OpenByHandleAt(int(root.Fd()), h, unix.O_RDONLY)
					if err != nil {
						t.Fatalf("file %d: %v", k+1, err)
					}
					f := os.NewFile(uintptr(fd), "by handle")
					b, err := io.ReadAll(f)
					f.Close()
					if err != nil || string(b) != fmt.Sprint(k+1) {
						t.Fatalf("file %d: %q, %v", k+1, b, err)
					}
				}
				forget()
			}
			fd, err := unix.OpenByHandleAt(int(root.Fd()), below, unix.O_RDONLY|unix.O_DIRECTORY)
			if err != nil {
				t.Fatalf("directory: %v", err)
			}
			d := os.NewFile(uintptr(fd), "by handle")
			names, err := d.Readdirnames(-1)
			if err != nil || len(names) != files-1 {
				t.Errorf("directory: %d names, %v", len(names), err)
			}
			// It has its place in the tree: it is where its path leads.
			link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err != nil || link != dir {
				t.Errorf("the directory is %s, %v", link, err)
			}
			d.Close()
			if _, err := unix.OpenByHandleAt(int(root.Fd()), gone, unix.O_RDONLY); !errors.Is(err, unix.ESTALE) {
				t.Errorf("a removed file: %v", err)
			}
			other, err := os.Open(s.mount(t, "tcp", words).Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if _, err := unix.OpenByHandleAt(int(other.Fd()), handles[1], unix.O_RDONLY); !errors.Is(err, unix.ESTALE) {
				t.Errorf("at another mount: %v", err)
			}
		})
	}
}
