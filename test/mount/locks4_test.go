package mount

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestLocksThroughSeveral4: one process locks through several descriptors of a file, of different modes, and closes them in between,
// as SQLite does. Each lock is had, and the last is there for others when all other descriptors are closed.
func TestLocksThroughSeveral4(t *testing.T) {
	s := startServer(t, serverOptions{versions: nfsd.V41 | nfsd.V42})
	a, b := s.mount(t, "rdma", "vers=4.2"), s.mount(t, "tcp", "vers=4.2")
	open := func(m *Mounted, flags int) *os.File {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(m.Dir, "f"), flags|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	lock := func(f *os.File, how int16, at int64) error {
		return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: how, Start: at, Len: 10})
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	all, other := open(a, os.O_RDWR), open(b, os.O_RDWR)
	defer other.Close()
	defer all.Close()
	for range 10 {
		r := open(a, os.O_RDONLY)
		must("for reading", lock(r, unix.F_RDLCK, 0))
		must("for writing, elsewhere", lock(all, unix.F_WRLCK, 100))
		must("for writing, the same range", lock(all, unix.F_WRLCK, 0))
		must("close", r.Close())
		must("once more", lock(all, unix.F_WRLCK, 0))
		if err := lock(other, unix.F_RDLCK, 0); err != unix.EAGAIN {
			t.Fatalf("locked by another mount: %v", err)
		}
	}
}
