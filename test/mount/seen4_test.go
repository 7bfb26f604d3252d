package mount

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/status"
)

// TestVersion4Seen: what is to be seen of a mount of version 4, which nfs-ganesha serves.
func TestVersion4Seen(t *testing.T) { inVersion4(t, seen4) }

func seen4(t *testing.T, dir string) {
	s := newServer4(t, dir, lease)
	mount := func(t *testing.T, words string) *Mounted {
		return Mount(t, "127.0.0.1:/export/data", Options{Words: "proto=tcp," + words})
	}
	t.Run("mountstats", func(t *testing.T) {
		readByTools(t, mount(t, "vers=4.2"), "4.2")
		emptied(t, s.data)
	})
	t.Run("auto", func(t *testing.T) { auto4(t, s) })
	t.Run("doctor", func(t *testing.T) { doctor4(t, s) })
	t.Run("status", func(t *testing.T) { status4(t, s, mount(t, "vers=4.1,nconnect=2")) })
}

// status4: the session and what the server keeps, before and after the server has restarted.
func status4(t *testing.T, s *server4, m *Mounted) {
	state := func() *status.NFS4 {
		var st status.Status
		r := Command(t, m.wrapper, "status", "--json", m.Dir)
		if err := json.Unmarshal([]byte(r.Stdout), &st); err != nil || st.State.NFS4 == nil {
			t.Fatalf("%v in %s%s", err, r.Stdout, r.Stderr)
		}
		return st.State.NFS4
	}
	fresh := state()
	if len(fresh.Session) != 32 || fresh.SlotsGranted == 0 || fresh.SlotsUsable > fresh.SlotsGranted || fresh.SlotsInUse != 0 || fresh.HighestSlot != -1 ||
		fresh.Connections == 0 || fresh.Lease != lease || fresh.Renewed.IsZero() || fresh.Openings != 0 || fresh.Locks != 0 || fresh.Recoveries != 0 || fresh.LastRecovery != nil {
		t.Errorf("at first: %+v", fresh)
	}
	f, err := os.OpenFile(filepath.Join(m.Dir, "file"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, start := range []int64{0, 100} {
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: 10}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l); err != nil {
			t.Fatal(err)
		}
	}
	if n := state(); n.Openings != 1 || n.Locks != 2 {
		t.Errorf("with an open file and two locks: %+v", n)
	}
	s.kill(t)
	s.start(t)
	if _, err := f.WriteString("reclaimed"); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	n := state()
	if n.Session == fresh.Session || n.Recoveries != 1 || n.Recovering || n.LastRecovery == nil || n.LastRecovery.Ended.IsZero() || n.LastRecovery.Why == "" || n.Openings != 1 || n.Locks != 2 {
		t.Errorf("after a restart of the server: %+v, %+v", n, n.LastRecovery)
	}
	shown := Command(t, m.wrapper, "status", m.Dir).Stdout
	for _, want := range []string{n.Session, "openings, 2 locks", n.LastRecovery.Why} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in %s", want, shown)
		}
	}
}
