package posix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func exclusiveCreate(t *testing.T, dir string) {
	name := filepath.Join(dir, "f")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil || st.Mode().Perm() != 0o640 || st.Size() != 0 {
		t.Errorf("new file: %v, %v", st, err)
	}
	if age := time.Since(st.ModTime()); age > time.Hour || age < -time.Hour {
		t.Errorf("new file was modified %v ago: the create verifier is still in its times", age)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("second exclusive create: %v", err)
	}
}

// exclusiveCreateRace: of many that create one name exclusively, one wins.
func exclusiveCreateRace(t *testing.T, dir string) {
	const n = 16
	var wg sync.WaitGroup
	won := make([]bool, n)
	for i := range n {
		wg.Go(func() {
			f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err == nil {
				won[i] = true
				f.Close()
			} else if !errors.Is(err, os.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	winners := 0
	for _, w := range won {
		if w {
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("%d creators won", winners)
	}
}

func longSymlink(t *testing.T, dir string) {
	for _, n := range []int{1, 100, 1023, 4000, 4095} {
		target := strings.Repeat("x", n)
		link := filepath.Join(dir, fmt.Sprint("l", n))
		if err := os.Symlink(target, link); err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("%d bytes: read %d bytes back, %v", n, len(got), err)
		}
	}
}

const bigDirectoryEntries = 5000

func bigDirectory(t *testing.T, dir string) {
	want := make(map[string]bool, bigDirectoryEntries)
	for i := range bigDirectoryEntries {
		name := fmt.Sprintf("entry-%05d", i)
		want[name] = true
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if !want[e.Name()] {
			t.Errorf("%q listed twice or never made", e.Name())
		}
		delete(want, e.Name())
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v %v", e.Name(), info, err)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d of %d entries are missing", len(want), bigDirectoryEntries)
	}
}

// removeWhileListing is what rm -r does: read a part, remove it, read on.
func removeWhileListing(t *testing.T, dir string) {
	for i := range 1500 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(100)
		if len(names) == 0 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if err := os.Remove(filepath.Join(dir, n)); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d directories were never listed, %v", len(left), err)
	}
}

func unlinkOpen(t *testing.T, dir string) {
	name := filepath.Join(dir, "f")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f, 0, "before")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the name is still there: %v", err)
	}
	write(t, f, 6, " and after")
	check(t, f, "before and after")
	if err := f.Sync(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func renameOverOpen(t *testing.T, dir string) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, n := range []string{a, b} {
		if err := os.WriteFile(n, []byte("content of "+filepath.Base(n)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(a, b); err != nil {
		t.Fatal(err)
	}
	check(t, f, "content of b")
	if got, err := os.ReadFile(b); err != nil || string(got) != "content of a" {
		t.Errorf("b holds %q, %v", got, err)
	}
}

func fifoNode(t *testing.T, dir string) {
	for name, kind := range map[string]uint32{"fifo": unix.S_IFIFO, "socket": unix.S_IFSOCK} {
		path := filepath.Join(dir, name)
		if err := unix.Mknod(path, kind|0o600, 0); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Mode != kind|0o600 {
			t.Errorf("%s: mode %o, %v", name, st.Mode, err)
		}
	}
}

func linkCount(t *testing.T, dir string) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(a, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(a, b); err != nil {
		t.Fatal(err)
	}
	var sa, sb unix.Stat_t
	if err := errors.Join(unix.Stat(a, &sa), unix.Stat(b, &sb)); err != nil {
		t.Fatal(err)
	}
	if sa.Nlink != 2 || sa.Ino != sb.Ino {
		t.Errorf("after link: %d links, inodes %d and %d", sa.Nlink, sa.Ino, sb.Ino)
	}
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat(b, &sb); err != nil || sb.Nlink != 1 {
		t.Errorf("after unlink: %d links, %v", sb.Nlink, err)
	}
}

func errorsCase(t *testing.T, dir string) {
	file, sub := filepath.Join(dir, "f"), filepath.Join(dir, "d")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(filepath.Join(sub, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	open := func(name string, flags int) error {
		fd, err := unix.Open(name, flags, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	for what, c := range map[string]struct{ got, want error }{
		"open missing":               {open(filepath.Join(dir, "no"), unix.O_RDONLY), unix.ENOENT},
		"open below a file":          {open(filepath.Join(file, "x"), unix.O_RDONLY), unix.ENOTDIR},
		"write-open a directory":     {open(sub, unix.O_WRONLY), unix.EISDIR},
		"directory-open a file":      {open(file, unix.O_RDONLY|unix.O_DIRECTORY), unix.ENOTDIR},
		"rmdir of a full directory":  {unix.Rmdir(sub), unix.ENOTEMPTY},
		"rmdir of a file":            {unix.Rmdir(file), unix.ENOTDIR},
		"unlink of a directory":      {unix.Unlink(sub), unix.EISDIR},
		"mkdir of what exists":       {unix.Mkdir(sub, 0o700), unix.EEXIST},
		"rename of what is missing":  {unix.Rename(filepath.Join(dir, "no"), file), unix.ENOENT},
		"rename file onto directory": {unix.Rename(file, sub), unix.EISDIR},
		"rename dir into itself":     {unix.Rename(sub, filepath.Join(sub, "x", "y")), unix.EINVAL},
		"link onto what exists":      {unix.Link(file, file), unix.EEXIST},
		"readlink of a file":         {readlink(file), unix.EINVAL},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

func readlink(name string) error {
	_, err := unix.Readlink(name, make([]byte, 10))
	return err
}

func longNames(t *testing.T, dir string) {
	name := filepath.Join(dir, strings.Repeat("n", 255))
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if err := os.Rename(name, filepath.Join(dir, strings.Repeat("m", 255))); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name+"n", nil, 0o600); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("name of 256 bytes: %v", err)
	}
}
