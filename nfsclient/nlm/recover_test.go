package nlm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
)

// grace has the server's grace period last until it is ended.
func grace(cfg *nfsd.Config) { cfg.Grace = -1 }

// The loss of the connection alone shows that a server has restarted: locks are
// reclaimed in its grace period, before anybody else can have them.
func TestReclaim(t *testing.T) {
	r := newRig(t, grace)
	a, b := r.client(), r.client()
	r.must(r.set(a, 1, wr, 0, 9))
	r.must(r.set(a, 1, rd, 20, 29))
	r.must(r.set(a, 2, wr, 40, whole))
	r.must(r.s.Crash())
	r.await("reclaimed", func() bool { return r.s.Locks() == 3 })
	done := make(chan error, 1)
	go func() { done <- r.wait(t.Context(), b, 1, wr, 0, 0) }()
	before := r.s.Stats().Locks["LOCK"]
	r.await("waiting", func() bool { return r.s.Stats().Locks["LOCK"] > before+1 })
	r.s.EndGrace()
	r.denied(r.set(b, 2, rd, 0, 9))
	r.must(r.set(b, 2, rd, 20, 29))
	r.must(r.set(a, 1, un, 0, 9))
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.await("the log", func() bool {
		return strings.Contains(r.log.String(), "3 reclaimed, 0 taken again outside of the grace period, 0 lost")
	})
}

// A connection that was lost while the server went on: the locks are still ours.
func TestConnectionLostAlone(t *testing.T) {
	var drop atomic.Bool
	r := newRig(t, func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{Before: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == wire.Program && drop.CompareAndSwap(true, false) {
				return nfsd.Drop
			}
			return nfsd.Proceed
		}}
	})
	a, b := r.client(), r.client()
	w := &watcher{}
	a.Watch(w)
	r.must(r.set(a, 1, wr, 0, 9))
	drop.Store(true)
	r.must(r.set(a, 1, wr, 20, 29)) // sent again over another connection
	r.await("the log", func() bool { return strings.Contains(r.log.String(), "taken again") })
	r.denied(r.set(b, 1, rd, 0, 9))
	if lost := w.all(); len(lost) != 0 {
		t.Errorf("%v lost", lost)
	}
}

// The grace period was missed, and somebody else was faster.
func TestLost(t *testing.T) {
	r := newRig(t)
	a, b := r.client(), r.client()
	w := &watcher{}
	a.Watch(w)
	r.must(r.set(a, 1, wr, 0, 9))
	r.must(r.set(a, 1, wr, 20, 29))
	r.must(r.set(a, 2, wr, 40, 49))
	// b takes the lock before a can: a is kept from its turn.
	a.mu.Lock()
	h := a.holders[key{r.file, 1}]
	a.mu.Unlock()
	<-h.turn
	r.must(r.s.Crash())
	r.must(r.wait(t.Context(), b, 1, wr, 0, 9))
	h.giveTurn()
	r.await("the log", func() bool {
		return strings.Contains(r.log.String(), "2 taken again outside of the grace period, 1 lost")
	})
	if want := []key{{r.file, 1}}; !slices.Equal(w.all(), want) {
		t.Errorf("lost %v, want %v", w.all(), want)
	}
	if !strings.Contains(r.log.String(), "a lock was lost when the server restarted") {
		t.Errorf("log:\n%s", &r.log)
	}
	r.must(r.set(a, 1, un, 0, whole)) // what is left of it
	r.must(r.set(a, 2, un, 0, whole))
	if n := r.s.Locks(); n != 1 {
		t.Errorf("%d ranges at the server", n)
	}
}

// A write verifier that has changed is another sign.
func TestRestarted(t *testing.T) {
	r := newRig(t)
	a := r.client()
	r.must(r.set(a, 1, wr, 0, 9))
	before := r.s.Stats().Locks["LOCK"]
	a.Restarted()
	r.await("asked", func() bool { return r.s.Stats().Locks["LOCK"] == before+2 }) // with and without reclaim
	r.await("the log", func() bool { return strings.Contains(r.log.String(), "1 taken again") })
}

// While locks are held the server is called now and then, and not otherwise.
func TestHeartbeat(t *testing.T) {
	r := newRig(t)
	a := r.client(func(cf *Config) { cf.heartbeat = time.Millisecond })
	r.must(r.set(a, 1, wr, 0, 9))
	r.await("calls", func() bool { return r.s.Stats().Locks["NULL"] > 3 })
	r.must(r.set(a, 1, un, 0, 9))
	r.await("rest", func() bool {
		n := r.s.Stats().Locks["NULL"]
		time.Sleep(10 * time.Millisecond)
		return r.s.Stats().Locks["NULL"] == n
	})
}

// The port is asked for again whenever a connection is made.
func TestPortIsAskedAgain(t *testing.T) {
	var asked atomic.Int32
	r := newRig(t)
	a := r.client(func(cf *Config) {
		port := cf.Port
		cf.Port = func(ctx context.Context) (uint16, error) {
			asked.Add(1)
			return port(ctx)
		}
	})
	if asked.Load() != 0 {
		t.Error("asked without need")
	}
	r.must(r.set(a, 1, wr, 0, 9))
	r.must(r.s.Crash())
	r.await("another connection", func() bool { return asked.Load() > 1 && r.s.Locks() == 1 })
}

// What a process held that was killed is given back by the next one, for the same
// server and no other.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	with := func(cf *Config) { cf.JournalDir = dir }
	r := newRig(t)
	dead := r.open(with)
	r.must(r.set(dead, 1, wr, 0, 9))
	r.must(r.set(dead, 2, rd, 20, whole))
	r.must(r.set(dead, 3, wr, 10, 11))
	r.must(r.set(dead, 3, un, 0, whole))
	kill(t, dead)
	if n := r.s.Locks(); n != 2 {
		t.Fatalf("%d ranges", n)
	}
	alive := r.client(with) // it sweeps
	r.await("swept", func() bool { return r.s.Locks() == 0 })
	r.must(r.set(alive, 1, wr, 0, whole))
	other := r.client(with) // and does not touch what is alive
	if n := len(other.journal.orphans()); n != 0 {
		t.Errorf("%d orphans", n)
	}
	r.denied(r.set(other, 1, wr, 0, 0))
	r.await("the journals of the living", func() bool { return files(t, dir) == 2 })
}

func TestJournalOfAnotherServer(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t)
	dead := r.open(func(cf *Config) { cf.JournalDir = dir })
	r.must(r.set(dead, 1, wr, 0, 9))
	kill(t, dead)
	j := newJournal(dir, r.at.Addr().Next())
	if n := len(j.orphans()); n != 0 {
		t.Errorf("%d orphans", n)
	}
}

// A mount that ends while its server is away leaves its journal behind.
func TestCloseWithoutServer(t *testing.T) {
	dir := t.TempDir()
	var hang atomic.Bool
	r := newRig(t, func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{Before: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == wire.Program && hang.Load() {
				return nfsd.Hang
			}
			return nfsd.Proceed
		}}
	})
	with := func(cf *Config) { cf.JournalDir, cf.tryTimeout = dir, 50*time.Millisecond }
	a := r.open(with)
	r.must(r.set(a, 1, wr, 0, 9))
	hang.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Error(err)
	}
	if n := files(t, dir); n != 1 {
		t.Fatalf("%d files", n)
	}
	hang.Store(false)
	r.client(with)
	r.await("swept", func() bool { return r.s.Locks() == 0 && files(t, dir) == 0 })
}

// In a grace period a dead process's locks are given back once it ends.
func TestJournalInGrace(t *testing.T) {
	dir := t.TempDir()
	var busy atomic.Bool
	r := newRig(t, func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{Lock: func(proc uint32) wire.Stat {
			if busy.Load() {
				return wire.DeniedGracePeriod
			}
			return wire.Granted
		}}
	})
	with := func(cf *Config) { cf.JournalDir = dir }
	dead := r.open(with)
	r.must(r.set(dead, 1, wr, 0, 9))
	kill(t, dead)
	busy.Store(true)
	r.client(with)
	r.await("refused", func() bool { return r.s.Stats().Locks["UNLOCK"] > 1 })
	busy.Store(false)
	r.await("swept", func() bool { return r.s.Locks() == 0 })
}

func TestNonsenseInTheJournal(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t)
	for name, text := range map[string]string{
		"locks-empty.journal": "", "locks-text.journal": strings.Repeat("nonsense\n", 1000), "locks-json.journal": `{"server":"127.0.0.1"`,
	} {
		write(t, dir, name, text)
	}
	a := r.client(func(cf *Config) { cf.JournalDir = dir })
	r.must(r.set(a, 1, wr, 0, 9))
	if n := files(t, dir); n != 4 {
		t.Errorf("%d files", n)
	}
}

var _ nfsclient.Watcher = (*watcher)(nil)

// NFS may restart alone: the loss of its connection has the locks looked at, though
// that of the lock manager stays.
func TestWatchedConnection(t *testing.T) {
	r := newRig(t, func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{Before: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == nfsProgram && e.Proc == wire.ProcNull {
				return nfsd.Drop
			}
			return nfsd.Proceed
		}}
	})
	a := r.client()
	r.must(r.set(a, 1, wr, 0, 9))
	d, err := dialTCP(r.at)
	r.must(err)
	w := &Watched{Dialer: d, Lost: a.Restarted}
	l, err := w.Dial(t.Context())
	r.must(err)
	before := r.s.Stats().Locks["LOCK"]
	if err := l.Exchange(t.Context(), 1, &transport.Call{Prog: nfsProgram, Vers: 3}); err == nil {
		t.Error("the connection was not dropped")
	}
	r.await("asked", func() bool { return r.s.Stats().Locks["LOCK"] == before+2 }) // with and without reclaim
	if err := errors.Join(l.Close(), w.Close()); err != nil {
		t.Error(err)
	}
}

const nfsProgram = 100003
