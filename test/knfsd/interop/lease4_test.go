//go:build knfsd

package interop

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/must"
)

// guestLease is the lease of the Linux server in the guest.
const guestLease = 10 * time.Second

// TestLeaseExpiresLinuxServer stops the daemon for longer than its lease. If a Linux client wants what it has locked, the server
// gives the lock to that one, and the owner here is told by EIO until he has given it up; else the server keeps it.
func TestLeaseExpiresLinuxServer(t *testing.T) {
	knfsd.NeedAll(t)
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap})
	guest(t, g, "mkdir -p /mnt/other && mount -t nfs4 -o vers=4.2,lookupcache=none localhost:/export /mnt/other && chmod 1777 /export")
	for _, way := range tapWays[:2] {
		for name, conflict := range map[string]bool{"conflict": true, "no conflict": false} {
			t.Run(way.name+" "+name, func(t *testing.T) { leaseExpires(t, g, way.words, conflict) })
		}
	}
}

func leaseExpires(t *testing.T, g *knfsd.Guest, words string, conflict bool) {
	log := filepath.Join(t.TempDir(), "log")
	m := mount.Mount(t, g.GuestAddr().String()+":/export", mount.Options{Words: words + ",vers=4.2,logfile=" + log, Wrapper: inNamespace(g)})
	endWithGuest(t, g, m)
	var stats struct{ PID int }
	must.Do(t, json.Unmarshal([]byte(mount.Command(t, inNamespace(g), "stats", "--json", m.Dir).Stdout), &stats))
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(m.Dir, name), os.O_CREATE|os.O_RDWR, 0o666)
		must.Do(t, err)
		t.Cleanup(func() { _ = f.Close() }) // that of a lost lock tells so
		_, err = f.WriteAt([]byte("before"), 0)
		must.Do(t, err)
		must.Do(t, f.Sync())
		return f
	}
	locked, kept := open("locked"), open("kept")
	lock := func(typ int16) error {
		return unix.FcntlFlock(locked.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: typ})
	}
	must.Do(t, lock(unix.F_WRLCK))
	guest(t, g, "! flock -n /mnt/other/locked true")
	// No process may be started here while the daemon is stopped: closing its copies of open files would wait for the daemon.
	t.Cleanup(func() { _ = syscall.Kill(stats.PID, syscall.SIGCONT) })
	must.Do(t, syscall.Kill(stats.PID, syscall.SIGSTOP))
	if conflict {
		guest(t, g, "until flock -n /mnt/other/locked sh -c 'printf theirs >/mnt/other/locked'; do sleep 1; done")
	} else {
		time.Sleep(2 * guestLease) // it is time that must pass
	}
	must.Do(t, syscall.Kill(stats.PID, syscall.SIGCONT))
	_, err := kept.WriteAt([]byte("after "), 0)
	must.Do(t, err)
	must.Do(t, kept.Sync())
	if got := guest(t, g, "cat /export/kept"); got != "after" {
		t.Errorf("the server has %q of a file that nobody else wants", got)
	}
	_, err = locked.WriteAt([]byte("ours"), 0)
	if err == nil {
		err = locked.Sync()
	}
	if !conflict {
		must.Do(t, err)
		guest(t, g, "! flock -n /mnt/other/locked true")
		return
	}
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("written without the lock: %v", err)
	}
	if got := guest(t, g, "cat /export/locked"); got != "theirs" {
		t.Errorf("the server has %q instead of what the other client has written under its lock", got)
	}
	if b, err := os.ReadFile(log); err != nil || !strings.Contains(string(b), `lost a lock of "/locked"`) {
		t.Errorf("the log does not name the file: %s, %v", b, err)
	}
	must.Do(t, lock(unix.F_UNLCK))
	must.Do(t, lock(unix.F_WRLCK))
	buf := make([]byte, 6)
	if n, err := locked.ReadAt(buf, 0); err != nil || string(buf[:n]) != "theirs" {
		t.Errorf("after the lock was given up: %q, %v", buf[:n], err)
	}
}
