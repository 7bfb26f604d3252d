package posix

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func modes(t *testing.T, dir string) {
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, m := range []uint32{0o644, 0o400, 0o1777, 0o755, 0} {
		if err := unix.Chmod(name, m); err != nil {
			t.Errorf("chmod %o: %v", m, err)
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil || st.Mode&0o7777 != m {
			t.Errorf("after chmod %o: %o, %v", m, st.Mode&0o7777, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(name, 12345, 54321); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || st.Uid != 12345 || st.Gid != 54321 {
		t.Errorf("after chown: %d:%d, %v", st.Uid, st.Gid, err)
	}
}

func times(t *testing.T, dir string) {
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []time.Time{
		time.Unix(1, 0), time.Unix(1234567890, 123456000), time.Unix(1<<32-2, 999000000),
	} {
		if err := os.Chtimes(name, want, want); err != nil {
			t.Errorf("%v: %v", want, err)
			continue
		}
		st, err := os.Stat(name)
		if err != nil || !st.ModTime().Equal(want) {
			t.Errorf("set %v, got %v, %v", want, st.ModTime(), err)
		}
	}
	// utimes(NULL): the server's own clock.
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, name, nil, 0); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(name); err != nil || st.ModTime().Year() < 2020 || st.ModTime().Year() > 2100 {
		t.Errorf("time set to now is %v, %v", st.ModTime(), err)
	}
	// Writing changes the modification time, and stat shows it.
	old := time.Unix(1000, 0)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(t, f, 0, "y")
	if st, err := f.Stat(); err != nil || st.ModTime().Equal(old) {
		t.Errorf("a write left the modification time at %v, %v", st.ModTime(), err)
	}
}

func statFS(t *testing.T, dir string) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks == 0 || st.Bavail > st.Blocks || st.Bsize <= 0 || st.Namelen < 255 {
		t.Errorf("statfs: %+v", st)
	}
}
