package mount

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRequestsOfFiles: what opening, making, writing and closing files costs in
// FUSE requests.
func TestRequestsOfFiles(t *testing.T) {
	const files = 5
	s := startServer(t, serverOptions{})
	for k := range files {
		if err := os.WriteFile(filepath.Join(s.export, fmt.Sprint("old", k)), make([]byte, 4096), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := countRequests(t, s.source(), s.words("tcp", "actimeo=600"))
	each := func(kind string, flags int, use func(fd int)) {
		t.Helper()
		for k := range files {
			fd, err := unix.Open(filepath.Join(r.dir, fmt.Sprint(kind, k)), flags|unix.O_CLOEXEC, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			use(fd)
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		}
	}
	stat := func(kind string) {
		t.Helper()
		for k := range files {
			if _, err := os.Stat(filepath.Join(r.dir, fmt.Sprint(kind, k))); err != nil {
				t.Error(err)
			}
		}
	}
	page := make([]byte, 4096)
	read := func(fd int) {
		if n, err := unix.Read(fd, page); n != len(page) || err != nil {
			t.Errorf("read %d bytes: %v", n, err)
		}
	}
	write := func(fd int) {
		if n, err := unix.Write(fd, page); n != len(page) || err != nil {
			t.Errorf("wrote %d bytes: %v", n, err)
		}
	}
	nothing := func(int) {}

	stat("old")
	r.want(t, "stat of what is not known", counts{"LOOKUP": files})
	stat("old")
	r.want(t, "stat again", counts{})
	// Nothing can be flushed of what was opened for reading.
	each("old", unix.O_RDONLY, read)
	r.want(t, "open, read and close", counts{"OPEN": files, "READ": files})
	each("old", unix.O_RDONLY, read)
	r.want(t, "the same with the pages in memory", counts{"OPEN": files})
	each("new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, nothing)
	r.want(t, "making files", counts{"LOOKUP": files, "CREATE": files, "FLUSH": files})
	stat("new")
	r.want(t, "stat of new files", counts{})
	// The kernel asks once whether files have security.capability.
	each("full", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, write)
	r.want(t, "making files with 4 KiB", counts{"LOOKUP": files, "CREATE": files, "WRITE": files, "FLUSH": files, "GETXATTR": 1})
	each("new", unix.O_RDWR, write)
	r.want(t, "open, write and close", counts{"OPEN": files, "WRITE": files, "FLUSH": files})
	each("empty", unix.O_RDONLY|unix.O_CREAT, nothing)
	r.want(t, "making files for reading", counts{"LOOKUP": files, "CREATE": files})
}

// TestRequestsOfAttributes: to change an attribute is one request. The kernel does
// not ask for the mode first, since the server takes care of suid and sgid.
func TestRequestsOfAttributes(t *testing.T) {
	s := startServer(t, serverOptions{})
	r := countRequests(t, s.source(), s.words("tcp", "actimeo=600"))
	name := filepath.Join(r.dir, "f")
	if err := os.WriteFile(name, make([]byte, 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	r.take(t)
	for what, change := range map[string]func() error{
		"chown":    func() error { return os.Chown(name, 1, 1) },
		"chmod":    func() error { return os.Chmod(name, 0o600) },
		"truncate": func() error { return os.Truncate(name, 100) },
		"utimes":   func() error { return unix.Utimes(name, make([]unix.Timeval, 2)) },
	} {
		if err := change(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		r.want(t, what, counts{"SETATTR": 1})
	}
}

// TestRequestsOfLinks: the target of a symbolic link is asked for once, and again
// when another client has put another link in its place.
func TestRequestsOfLinks(t *testing.T) {
	s := startServer(t, serverOptions{})
	there := filepath.Join(s.export, "link")
	r := countRequests(t, s.source(), s.words("tcp", "actimeo=600"))
	for n := range 3 {
		target := fmt.Sprint("target", n)
		if err := os.Symlink(target, there); err != nil {
			t.Fatal(err)
		}
		// Listing makes the mount see what has changed.
		if _, err := os.ReadDir(r.dir); err != nil {
			t.Fatal(err)
		}
		r.take(t)
		for range 3 {
			if got, err := os.Readlink(filepath.Join(r.dir, "link")); got != target || err != nil {
				t.Errorf("the target is %q, %v; want %q", got, err, target)
			}
		}
		got := r.take(t)
		delete(got, "LOOKUP") // of a name that another client has changed
		if want := (counts{"READLINK": 1}); !maps.Equal(got, want) {
			t.Errorf("link %d: FUSE requests %v, want %v", n, got, want)
		}
		if err := os.Remove(there); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequestsOfWalks: a listing gives the kernel what stat needs, of directories, too.
func TestRequestsOfWalks(t *testing.T) {
	const dirs = 5
	s := startServer(t, serverOptions{})
	for k := range dirs {
		if err := os.MkdirAll(filepath.Join(s.export, fmt.Sprint("dir", k)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := countRequests(t, s.source(), s.words("tcp", "actimeo=600"))
	list := func() {
		t.Helper()
		found, err := os.ReadDir(r.dir)
		if err != nil || len(found) != dirs {
			t.Fatalf("%d entries: %v", len(found), err)
		}
		for _, e := range found {
			if _, err := e.Info(); err != nil {
				t.Error(err)
			}
		}
	}
	list()
	// The second one finds the end.
	r.want(t, "ls -l of directories", counts{"OPENDIR": 1, "READDIRPLUS": 2})
	// What was changed since is asked for again.
	if err := os.Mkdir(filepath.Join(r.dir, "dir0", "new"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.take(t)
	for range 2 {
		st, err := os.Stat(filepath.Join(r.dir, "dir0"))
		if err != nil {
			t.Fatal(err)
		}
		there, err := os.Stat(filepath.Join(s.export, "dir0"))
		if err != nil {
			t.Fatal(err)
		}
		if !st.ModTime().Equal(there.ModTime()) {
			t.Errorf("changed at %v, the server says %v", st.ModTime(), there.ModTime())
		}
	}
	r.want(t, "stat of what has changed", counts{"GETATTR": 1})
}
