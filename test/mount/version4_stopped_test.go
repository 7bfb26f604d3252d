package mount

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/must"
)

// stoppedLease is the lease of a server whose clients are stopped for longer, in seconds.
const stoppedLease = 5

// TestVersion4Stopped stops a daemon for longer than its lease, as a laptop that sleeps is, and kills one. What was open
// goes on. A lock that another client has got meanwhile is lost to its owner, who is told by EIO until it has given it up;
// the log has the name. What a killed daemon had locked is free once its place is mounted again.
func TestVersion4Stopped(t *testing.T) {
	inVersion4(t, func(t *testing.T, dir string) {
		s := newServer4(t, dir, stoppedLease)
		t.Run("conflict", func(t *testing.T) { stopped4(t, s, true) })
		t.Run("no conflict", func(t *testing.T) { stopped4(t, s, false) })
		t.Run("killed", func(t *testing.T) { killed4(t) })
	})
}

func mountStopped4(t *testing.T, dir string) *Mounted {
	t.Helper()
	return Mount(t, "127.0.0.1:/export/data", Options{Dir: dir, Words: "proto=tcp,vers=4.2,logfile=" + filepath.Join(t.TempDir(), "log")})
}

func open4(t *testing.T, m *Mounted, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(m.Dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // that of a lost lock tells so
	return f
}

// lock4 locks a file, or gives it back.
func lock4(f *os.File, how int, typ int16) error {
	for {
		if err := unix.FcntlFlock(f.Fd(), how, &unix.Flock_t{Type: typ}); err != syscall.EINTR {
			return err
		}
	}
}

// stopped4 stops the daemon of a mount. No process may be started while it is: closing its copies of open files would wait
// for the daemon.
func stopped4(t *testing.T, s *server4, conflict bool) {
	log := filepath.Join(t.TempDir(), "log")
	a := Mount(t, "127.0.0.1:/export/data", Options{Words: "proto=tcp,vers=4.2,logfile=" + log})
	b := mountStopped4(t, "")
	pid, _ := daemon(t, a)
	locked, kept := open4(t, a, "locked"), open4(t, a, "kept")
	theirs := open4(t, b, "locked")
	for _, f := range []*os.File{locked, kept} {
		_, err := f.WriteAt([]byte("before"), 0)
		must.Do(t, err)
		must.Do(t, f.Sync())
	}
	must.Do(t, lock4(locked, unix.F_OFD_SETLK, unix.F_WRLCK))
	if err := lock4(theirs, unix.F_OFD_SETLK, unix.F_WRLCK); !errors.Is(err, syscall.EAGAIN) {
		t.Fatalf("what is locked can be locked: %v", err)
	}
	stop(t, pid)
	if conflict {
		must.Do(t, lock4(theirs, unix.F_OFD_SETLKW, unix.F_WRLCK))
		_, err := theirs.WriteAt([]byte("theirs"), 0)
		must.Do(t, err)
		must.Do(t, theirs.Sync())
	} else {
		time.Sleep(2 * stoppedLease * time.Second) // it is time that must pass
	}
	must.Do(t, syscall.Kill(pid, syscall.SIGCONT))
	// Other files do not notice.
	_, err := kept.WriteAt([]byte("after "), 0)
	must.Do(t, err)
	must.Do(t, kept.Sync())
	if b, err := os.ReadFile(filepath.Join(s.data, "kept")); err != nil || string(b) != "after " {
		t.Errorf("the server has %q, %v", b, err)
	}
	buf := make([]byte, 6)
	lost := func() bool {
		_, err := locked.ReadAt(buf, 0)
		return errors.Is(err, syscall.EIO)
	}
	if !conflict {
		// A server may keep what nobody else wants; else the owner is told.
		if free := lock4(theirs, unix.F_OFD_SETLK, unix.F_WRLCK); free == nil {
			awaitThat(t, "the owner is told that the lock is lost", lost)
		} else if lost() {
			t.Error("the lock is lost, and not free")
		}
		return
	}
	awaitThat(t, "the owner is told that the lock is lost", lost)
	if _, err := locked.WriteAt([]byte("ours"), 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("written without the lock: %v", err)
	}
	if b, err := os.ReadFile(log); err != nil || !bytes.Contains(b, []byte(`lost a lock of "/locked"`)) {
		t.Errorf("the log does not name the file: %s, %v", b, err)
	}
	must.Do(t, lock4(locked, unix.F_OFD_SETLK, unix.F_UNLCK))
	if n, err := locked.ReadAt(buf, 0); err != nil || string(buf[:n]) != "theirs" {
		t.Errorf("after the lock was given up: %q, %v", buf[:n], err)
	}
	if err := lock4(locked, unix.F_OFD_SETLK, unix.F_WRLCK); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("locked though another has it: %v", err)
	}
	must.Do(t, lock4(theirs, unix.F_OFD_SETLK, unix.F_UNLCK))
	must.Do(t, lock4(locked, unix.F_OFD_SETLKW, unix.F_WRLCK))
	_, err = locked.WriteAt([]byte("ours"), 0)
	must.Do(t, err)
	must.Do(t, locked.Sync())
}

// killed4 kills a daemon that has a lock.
func killed4(t *testing.T) {
	dir := t.TempDir()
	a := mountStopped4(t, dir)
	b := mountStopped4(t, "")
	pid, exited := daemon(t, a)
	locked, theirs := open4(t, a, "killed"), open4(t, b, "killed")
	must.Do(t, lock4(locked, unix.F_OFD_SETLK, unix.F_WRLCK))
	must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	exited()
	if err := lock4(theirs, unix.F_OFD_SETLK, unix.F_WRLCK); !errors.Is(err, syscall.EAGAIN) {
		t.Fatalf("what a killed daemon has locked can be locked at once: %v", err)
	}
	_ = locked.Close() // its daemon is dead
	mountStopped4(t, dir)
	if err := lock4(theirs, unix.F_OFD_SETLK, unix.F_WRLCK); err != nil {
		t.Errorf("after another mount at the place: %v", err)
	}
}
