package mount

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// frozen is a server on which every READ hangs while it is set.
type frozen struct {
	set  atomic.Bool
	came chan uint32 // the XID of each READ that hangs
	thaw chan struct{}
}

func (f *frozen) before(ctx context.Context, e nfsd.Event) nfsd.Action {
	if e.Prog == nfsProgram && e.Proc == wire.ProcRead && f.set.Load() {
		f.came <- e.XID
		select {
		case <-f.thaw:
		case <-ctx.Done():
		}
	}
	return nfsd.Proceed
}

func startFrozen(t *testing.T) (*server, *frozen) {
	f := &frozen{came: make(chan uint32, 10000), thaw: make(chan struct{})}
	s := startServer(t, serverOptions{faults: &nfsd.Faults{Before: f.before}})
	if err := os.WriteFile(filepath.Join(s.export, "frozen"), bytes.Repeat([]byte("ice "), 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.export, "other"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f.set.Store(true)
	return s, f
}

// reader starts a process that reads a part of the frozen file.
func reader(t *testing.T, m *Mounted, at int) *exec.Cmd {
	t.Helper()
	dd := exec.Command("dd", "if="+filepath.Join(m.Dir, "frozen"), "of=/dev/null", "bs=4k", "iflag=direct", "count=1", "skip="+strconv.Itoa(at))
	if err := dd.Start(); err != nil {
		t.Fatal(err)
	}
	return dd
}

// arrivals awaits READs of n different XIDs.
func (f *frozen) arrivals(t *testing.T, n int) {
	t.Helper()
	xids := map[uint32]bool{}
	for len(xids) < n {
		select {
		case x := <-f.came:
			xids[x] = true
		case <-time.After(patience):
			t.Fatalf("%d READs came to the server, and no more do; want %d", len(xids), n)
		}
	}
}

// answers asks the server for attributes, and fails the test if none come.
func answers(t *testing.T, m *Mounted) {
	t.Helper()
	within(t, func() {
		if _, err := os.Stat(filepath.Join(m.Dir, "other")); err != nil {
			t.Error(err)
		}
	})
}

// TestFrozenFile: processes that read a file which the server does not answer for
// keep nobody waiting. Their READs come again together, on each connection that
// their timeouts cost.
func TestFrozenFile(t *testing.T) {
	const readers, rounds = 8, 2
	s, f := startFrozen(t)
	m := s.mount(t, "rdma", "actimeo=0,timeo=10")
	answers(t, m)
	before := m.Stats(t).Connects
	var all []*exec.Cmd
	for i := range readers {
		all = append(all, reader(t, m, i))
	}
	f.arrivals(t, readers)
	for range rounds {
		f.arrivals(t, readers)
		answers(t, m)
	}
	// One a round. Where a connection carries but one of them, it takes at least
	// one for each reader and round.
	if n := m.Stats(t).Connects - before; n >= readers*rounds {
		t.Errorf("%d connections", n)
	}
	close(f.thaw)
	for _, dd := range all {
		if err := dd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestKilledReaders: as many processes as may have calls under way are killed
// while they wait for such a file. Others go on without waiting for a timeout.
func TestKilledReaders(t *testing.T) {
	const credits = 128
	s, f := startFrozen(t)
	m := s.mount(t, "rdma", "actimeo=0,timeo=6000")
	answers(t, m)
	var all []*exec.Cmd
	for i := range credits {
		all = append(all, reader(t, m, i))
	}
	f.arrivals(t, credits)
	var gone sync.WaitGroup
	for _, dd := range all {
		if err := dd.Process.Kill(); err != nil {
			t.Error(err)
		}
		gone.Go(func() { _ = dd.Wait() }) // killed
	}
	within(t, gone.Wait)
	answers(t, m)
	close(f.thaw)
}
