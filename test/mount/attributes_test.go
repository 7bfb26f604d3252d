package mount

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAttributesShown: stat, statx and statfs show what the server has.
func TestAttributesShown(t *testing.T) {
	s := startServer(t, serverOptions{})
	for name, size := range map[string]int{"empty": 0, "small": 1, "large": 3 << 20} {
		if err := os.WriteFile(filepath.Join(s.export, name), make([]byte, size), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	sparse := filepath.Join(s.export, "sparse")
	if err := os.WriteFile(sparse, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 1<<33); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(sparse, sparse+"-link"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.export, "dir", "sub"), 0o2755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", filepath.Join(s.export, "symlink")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(s.export, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := s.mount(t, "tcp", "")
	var device struct{ major, minor uint32 }
	for _, name := range []string{"", "empty", "small", "large", "sparse", "sparse-link", "dir", "dir/sub", "symlink", "fifo"} {
		var here, there unix.Statx_t
		for _, f := range []struct {
			dir string
			st  *unix.Statx_t
		}{{s.export, &there}, {m.Dir, &here}} {
			if err := unix.Statx(unix.AT_FDCWD, filepath.Join(f.dir, name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, f.st); err != nil {
				t.Fatal(err)
			}
		}
		if device.major == 0 && device.minor == 0 {
			device.major, device.minor = here.Dev_major, here.Dev_minor
		}
		if here.Mask&unix.STATX_BASIC_STATS != unix.STATX_BASIC_STATS || here.Dev_major != device.major || here.Dev_minor != device.minor {
			t.Errorf("%q: mask %#x, device %d:%d", name, here.Mask, here.Dev_major, here.Dev_minor)
		}
		if here.Mode != there.Mode || here.Nlink != there.Nlink || here.Uid != there.Uid || here.Gid != there.Gid || here.Ino != there.Ino || here.Size != there.Size ||
			here.Blocks != there.Blocks || here.Mtime != there.Mtime || here.Ctime != there.Ctime {
			t.Errorf("%q: %+v, the server has %+v", name, here, there)
		}
		if here.Blksize != 1<<20 {
			t.Errorf("%q: block size %d", name, here.Blksize)
		}
	}
	var here, there unix.Statfs_t
	if err := unix.Statfs(m.Dir, &here); err != nil {
		t.Fatal(err)
	}
	if err := unix.Statfs(s.export, &there); err != nil {
		t.Fatal(err)
	}
	if here.Blocks*uint64(here.Frsize) != there.Blocks*uint64(there.Frsize) || here.Files != there.Files || here.Namelen != there.Namelen {
		t.Errorf("statfs: %+v, the server has %+v", here, there)
	}
}

// TestTimesClipped: times that NFS version 3 cannot say become the nearest that it can,
// as with Linux's client.
func TestTimesClipped(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "tcp", "")
	name := filepath.Join(m.Dir, "f")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const most = 1<<32 - 1
	for _, c := range []struct{ set, shown int64 }{{-1, 0}, {0, 0}, {1 << 31, 1 << 31}, {most, most}, {most + 1, most}, {1 << 33, most}} {
		if err := os.Chtimes(name, time.Unix(c.set, 0), time.Unix(c.set, 0)); err != nil {
			t.Errorf("%d: %v", c.set, err)
			continue
		}
		for _, file := range []string{name, filepath.Join(s.export, "f")} {
			st, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if st.ModTime().Unix() != c.shown {
				t.Errorf("%s: set to %d, shown as %d, want %d", file, c.set, st.ModTime().Unix(), c.shown)
			}
		}
	}
}
