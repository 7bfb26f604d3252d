package cache

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/testlog"
)

// committers refuses COMMIT to some users.
type committers struct {
	*fake
	mu      sync.Mutex
	refused map[uint32]bool // by uid
	asked   []uint32
}

func (s *committers) Commit(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, off uint64, n uint32) (nfsclient.Verifier, nfsclient.Wcc, error) {
	s.mu.Lock()
	refused := s.refused[cr.UID]
	s.asked = append(s.asked, cr.UID)
	s.mu.Unlock()
	if refused {
		return nfsclient.Verifier{}, nfsclient.Wcc{}, fail("COMMIT", nfsclient.ErrAccess)
	}
	return s.fake.Commit(ctx, cr, h, off, n)
}

// TestCommitByWhoMay: data of several users is committed by any of them, and
// lost only if none may.
func TestCommitByWhoMay(t *testing.T) {
	for _, c := range []struct {
		refused []uint32
		want    error
	}{{[]uint32{alice.UID}, nil}, {[]uint32{bob.UID}, nil}, {[]uint32{alice.UID, bob.UID}, fail("COMMIT", nfsclient.ErrAccess)}} {
		srv := &committers{fake: newFake(t), refused: map[uint32]bool{}}
		for _, uid := range c.refused {
			srv.refused[uid] = true
		}
		cache := newCache(t, srv, testConfig())
		f := create(t, cache, "a")
		g, _, err := cache.Open(ctx, bob, f.i, rw)
		check(t, err)
		want := pattern(400_000, 1)
		write(t, f, want[:200_000], 0)
		write(t, g, want[200_000:], 200_000)
		for _, o := range []*File{f, g} {
			if err := o.Fsync(ctx); status(err) != status(c.want) {
				t.Errorf("%d refused: fsync: %v, want %v; asked as %d", c.refused, err, c.want, srv.asked)
			}
			o.Release()
		}
		if c.want == nil && !bytes.Equal(srv.content("a"), want) {
			t.Errorf("%d refused: the disk differs", c.refused)
		}
	}
}

// TestVerifierThatNeverMatches: a server that has another verifier for each
// COMMIT is asked more and more slowly. Who waits for it may be killed; the log
// has it once, and it is over with the first COMMIT that matches.
func TestVerifierThatNeverMatches(t *testing.T) {
	srv := newFake(t)
	var mu sync.Mutex
	var log []string
	cfg := testConfig()
	cfg.Log = testlog.To(func(message string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, message)
	})
	c := newCache(t, srv, cfg)
	f := create(t, c, "a")
	defer f.Release()
	waits := make(chan time.Duration)
	var calm atomic.Bool
	srv.hook = func(op string, done bool) error {
		if op != "COMMIT" || done || calm.Load() {
			return nil
		}
		srv.mu.Lock()
		srv.verifier++
		srv.mu.Unlock()
		f.i.mu.Lock()
		wait := f.i.wb.CommitDelay()
		f.i.mu.Unlock()
		waits <- wait
		return nil
	}
	want := pattern(200_000, 1)
	write(t, f, want, 0)
	killed, kill := context.WithCancel(ctx)
	gone := make(chan error)
	go func() { gone <- f.Fsync(killed) }()
	for n, want := range []time.Duration{0, 0, writeback.BackoffFirst, 2 * writeback.BackoffFirst} {
		if got := <-waits; got != want {
			t.Errorf("COMMIT %d came after %v, want %v", n, got, want)
		}
	}
	kill()
	for ended := false; !ended; {
		select {
		case <-waits: // it was under way, or came with the kill
		case err := <-gone:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who was killed got %v", err)
			}
			ended = true
		}
	}
	calm.Store(true)
	check(t, f.Fsync(ctx))
	if !bytes.Equal(srv.content("a"), want) {
		t.Error("the disk differs")
	}
	f.i.mu.Lock()
	over := f.i.wb.Trusted()
	f.i.mu.Unlock()
	if !over || c.unreliable.Load() {
		t.Error("it is not over")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(log) != 1 || !strings.Contains(log[0], "verifier") {
		t.Errorf("logged: %q", log)
	}
}
