// Package ringtest lets tests use FUSE over io_uring, which root switches on for
// the whole machine.
//
// It owns that switch while a test runs, and sets it back after the last of all
// processes that need it. Mounts that exist do not notice.
//
// No goroutines, no locks but that of a file.
package ringtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/fs/ring"
)

const switchPath = "/sys/module/fuse/parameters/enable_uring"

// lockPath is held, shared, by each process that needs the switch. Its content is
// what the switch was before, if it was set.
var lockPath = filepath.Join(os.TempDir(), "rdmafs-test-enable_uring.lock")

// On has FUSE over io_uring enabled until the test ends, or skips the test.
func On(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := ring.Available(); err != nil {
			t.Skipf("no FUSE over io_uring: %v", err)
		}
		return
	}
	off, err := SwitchOn()
	if err != nil {
		t.Skipf("no FUSE over io_uring: %v", err)
	}
	t.Cleanup(off)
	if err := ring.Available(); err != nil {
		t.Skipf("no FUSE over io_uring: %v", err)
	}
}

// SwitchOn sets the switch, and returns what sets it back.
func SwitchOn() (off func(), err error) {
	lock, err := os.OpenFile(lockPath, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		lock.Close()
		return nil, err
	}
	off = func() {
		switchOff(lock)
		lock.Close()
	}
	was, err := os.ReadFile(switchPath)
	if err == nil && strings.TrimSpace(string(was)) != "Y" {
		if _, err = lock.WriteAt([]byte("N"), 0); err == nil {
			err = os.WriteFile(switchPath, []byte("Y"), 0)
		}
	}
	if err != nil {
		off()
		return nil, err
	}
	return off, nil
}

// switchOff sets the switch back if no other process needs it.
func switchOff(lock *os.File) {
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // the last one does
	}
	var was [1]byte
	if n, _ := lock.ReadAt(was[:], 0); n == 1 && was[0] == 'N' {
		_ = os.WriteFile(switchPath, []byte("N"), 0)
		_ = lock.Truncate(0)
	}
}
