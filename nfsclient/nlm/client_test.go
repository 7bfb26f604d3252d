package nlm

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
)

const (
	un = nfsclient.Unlocked
	rd = nfsclient.ReadLock
	wr = nfsclient.WriteLock
)

// Owners of one mount and of two exclude each other; ranges are split and joined.
func TestExclusion(t *testing.T) {
	r := newRig(t)
	a, b := r.client(), r.client()
	r.must(r.set(a, 1, wr, 0, 99))
	r.denied(r.set(a, 2, rd, 99, 99))
	r.denied(r.set(b, 1, rd, 0, 0))
	r.must(r.set(b, 1, wr, 100, whole))
	r.must(r.set(a, 1, un, 50, 59))
	r.must(r.set(b, 1, wr, 50, 59))
	r.denied(r.set(a, 1, wr, 0, 99))
	if n := r.s.Locks(); n != 4 {
		t.Errorf("%d ranges at the server", n)
	}
	l, err := a.TestLock(t.Context(), nfsclient.Cred{}, r.file, nil, 2, nfsclient.Lock{Type: wr, First: 100, Last: whole})
	if err != nil || l == nil || *l != (nfsclient.Lock{Type: wr, First: 100, Last: whole}) {
		t.Errorf("TestLock: %+v, %v", l, err)
	}
	l, err = a.TestLock(t.Context(), nfsclient.Cred{}, r.file, nil, 1, nfsclient.Lock{Type: wr, First: 0, Last: 49})
	if err != nil || l != nil {
		t.Errorf("TestLock of one's own: %+v, %v", l, err)
	}
	r.must(r.set(a, 1, un, 0, whole))
	r.must(r.set(b, 1, un, 0, 1<<63-1)) // Linux's OFFSET_MAX is the end, too
	if n := r.s.Locks(); n != 0 {
		t.Errorf("%d ranges left", n)
	}
}

// An owner that holds nothing makes no call to unlock.
func TestUnlockOfNothingIsFree(t *testing.T) {
	r := newRig(t)
	a := r.client()
	r.must(r.set(a, 1, un, 0, whole))
	r.must(r.set(a, 1, wr, 0, 9))
	r.must(r.set(a, 1, un, 10, whole))
	if got := r.s.Stats().Locks; got["UNLOCK"] != 0 || got["LOCK"] != 1 {
		t.Errorf("%v", got)
	}
}

func TestWaitUntilGranted(t *testing.T) {
	r := newRig(t)
	a, b := r.client(), r.client()
	r.must(r.set(a, 1, wr, 0, whole))
	done := make(chan error, 1)
	go func() { done <- r.wait(t.Context(), b, 1, wr, 0, whole) }()
	before := r.s.Stats().Locks["LOCK"]
	r.await("asking again", func() bool { return r.s.Stats().Locks["LOCK"] > before+2 })
	select {
	case err := <-done:
		t.Fatal("granted at once:", err)
	default:
	}
	// Another thread of the waiting owner is not kept waiting.
	r.must(r.set(b, 1, un, 0, 5))
	r.must(r.set(a, 1, un, 0, whole))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.denied(r.set(a, 1, rd, 0, 0))
}

func TestInterruptedWaitHoldsNothing(t *testing.T) {
	r := newRig(t)
	a, b := r.client(), r.client()
	r.must(r.set(a, 1, wr, 0, whole))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.wait(ctx, b, 1, wr, 0, whole) }()
	r.await("asking", func() bool { return r.s.Stats().Locks["LOCK"] > 2 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || nfsclient.Errno(err) != syscall.EINTR {
		t.Errorf("%v", err)
	}
	r.must(r.set(a, 1, un, 0, whole))
	r.settled(b)
	if n := r.s.Locks(); n != 0 {
		t.Errorf("%d ranges held", n)
	}
}

// settled waits until c holds nothing, and nothing of it is under way.
func (r *rig) settled(c *Client) {
	r.t.Helper()
	r.await("the end of what was abandoned", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.holders) == 0
	})
}

// A signal while the LOCK is at the server, which grants it: it is given back, but
// for what was held before.
func TestLateGrantIsGivenBack(t *testing.T) {
	var late lateLock
	r := newRig(t, late.answers())
	a, b := r.client(), r.client()
	r.must(r.set(a, 1, rd, 10, 19))
	late.hold.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.wait(ctx, a, 1, wr, 0, whole) }()
	<-late.arrived
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.denied(r.set(b, 1, wr, 0, 0)) // granted by the server, and nobody's
	close(late.stop)
	r.must(r.wait(t.Context(), b, 1, wr, 0, 9))
	r.must(r.wait(t.Context(), b, 1, wr, 20, whole))
	r.must(r.wait(t.Context(), b, 1, rd, 10, 19))
	r.denied(r.set(b, 1, wr, 10, 19))
}

// A server may drop a request, as Linux does while it recalls a delegation.
func TestDroppedRequestIsMadeAgain(t *testing.T) {
	var drop atomic.Int32
	r := newRig(t, func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{Before: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == wire.Program && e.Proc != wire.ProcNull && drop.Add(-1) >= 0 {
				return nfsd.Hang
			}
			return nfsd.Proceed
		}}
	})
	a := r.client(func(cf *Config) { cf.tryTimeout = 50 * time.Millisecond })
	drop.Store(2)
	r.must(r.set(a, 1, wr, 0, whole))
	drop.Store(1)
	r.must(r.set(a, 1, un, 0, whole))
	if n := r.s.Locks(); n != 0 {
		t.Errorf("%d ranges left", n)
	}
}

// An UNLOCK that cannot be answered goes on after its caller was interrupted, and
// nothing overtakes it.
func TestUnlockGoesOn(t *testing.T) {
	var deny atomic.Bool
	r := newRig(t, func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{Lock: func(proc uint32) wire.Stat {
			if proc == wire.ProcUnlock && deny.Load() {
				return wire.DeniedGracePeriod
			}
			return wire.Granted
		}}
	})
	a := r.client()
	r.must(r.set(a, 1, wr, 0, whole))
	deny.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- a.SetLock(ctx, nfsclient.Cred{}, r.file, nil, 1, nfsclient.Lock{Type: un, First: 0, Last: whole})
	}()
	r.await("UNLOCK", func() bool { return r.s.Stats().Locks["UNLOCK"] > 1 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	deny.Store(false)
	r.await("unlocked", func() bool { return r.s.Locks() == 0 })
}

func TestErrorsSayWhatToDo(t *testing.T) {
	var stat atomic.Uint32
	r := newRig(t, func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{Lock: func(uint32) wire.Stat { return wire.Stat(stat.Load()) }}
	})
	a := r.client()
	for s, want := range map[wire.Stat]struct {
		errno syscall.Errno
		hint  string
	}{
		wire.DeniedNoLocks: {syscall.ENOLCK, "rpc.statd"},
		wire.Failed:        {syscall.ENOLCK, "insecure"},
		wire.Deadlock:      {syscall.EDEADLK, ""},
		wire.ReadOnlyFS:    {syscall.EROFS, ""},
		wire.StaleHandle:   {syscall.ESTALE, ""},
		wire.TooBig:        {syscall.EOVERFLOW, ""},
	} {
		stat.Store(uint32(s))
		err := r.set(a, 1, wr, 0, 9)
		if nfsclient.Errno(err) != want.errno || !strings.Contains(err.Error(), want.hint) {
			t.Errorf("%v: %v, errno %v", s, err, nfsclient.Errno(err))
		}
	}
	stat.Store(uint32(wire.DeniedNoLocks))
	for range 3 {
		_ = r.set(a, 1, wr, 0, 9) // the error was looked at above
	}
	if n := strings.Count(r.log.String(), "rpc.statd"); n > 2 {
		t.Errorf("the log has it %d times:\n%s", n, &r.log)
	}
}

// Without a lock manager, or behind a firewall, locks fail soon, and the log has one
// line of it.
func TestNoLockManager(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		port func(context.Context) (uint16, error)
		want Failure
	}{
		"not registered": {func(context.Context) (uint16, error) { return 0, nil }, NotRegistered},
		"rpcbind away":   {func(context.Context) (uint16, error) { return 0, syscall.ECONNREFUSED }, Unreachable},
		"nobody listens": {func(context.Context) (uint16, error) { return 1, nil }, Unreachable},
		"firewall": {func(ctx context.Context) (uint16, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			r.log = syncBuffer{}
			a := r.client(func(cf *Config) { cf.Port, cf.firstContact = c.port, 300*time.Millisecond })
			for range 3 {
				err := r.set(a, 1, wr, 0, 9)
				var e *Error
				if !errors.As(err, &e) || e.Failure != c.want || nfsclient.Errno(err) != syscall.ENOLCK || !strings.Contains(err.Error(), "nolock") {
					t.Errorf("%v", err)
				}
			}
			if n := strings.Count(r.log.String(), "\n"); n != 1 {
				t.Errorf("%d lines:\n%s", n, &r.log)
			}
		})
	}
}

func TestCloseGivesBack(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.client()
	r.must(r.set(a, 1, wr, 0, 9))
	r.must(r.set(a, 2, rd, 20, 29))
	done := make(chan error, 1)
	go func() { done <- r.wait(t.Context(), b, 1, wr, 0, 29) }()
	r.close(a)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := r.set(a, 1, wr, 0, 9); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	go func() { done <- r.wait(t.Context(), b, 2, wr, 0, 29) }()
	r.await("waiting", func() bool { return r.s.Stats().Locks["LOCK"] > 8 })
}

// Numbers of owners are positive, at random, and used once.
func TestOwners(t *testing.T) {
	r := newRig(t)
	a := r.client()
	seen := map[int32]bool{}
	for owner := range nfsclient.LockOwner(20) {
		r.must(r.set(a, owner, rd, 0, 9))
		a.mu.Lock()
		id := a.owners[owner]
		a.mu.Unlock()
		if id.svid <= 0 || seen[id.svid] || len(id.oh) != 24 {
			t.Errorf("%+v", id)
		}
		seen[id.svid] = true
	}
	for owner := range nfsclient.LockOwner(20) {
		r.must(r.set(a, owner, un, 0, whole))
	}
	if len(a.owners) != 0 || len(a.holders) != 0 || a.heldRanges != 0 {
		t.Errorf("%d owners, %d holders, %d ranges", len(a.owners), len(a.holders), a.heldRanges)
	}
}
