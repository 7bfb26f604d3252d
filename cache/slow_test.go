package cache

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// picky treats the WRITEs of one file in a way of its own.
type picky struct {
	*fake
	mu    sync.Mutex
	h     nfsclient.Handle
	treat func() error
}

func (s *picky) Write(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, from mem.Vec, how nfsclient.Stable) (nfsclient.WriteResult, error) {
	s.mu.Lock()
	treat := s.treat
	if h != s.h {
		treat = nil
	}
	s.mu.Unlock()
	if treat != nil {
		if err := treat(); err != nil {
			return nfsclient.WriteResult{}, err
		}
	}
	return s.fake.Write(ctx, cr, h, st, off, from, how)
}

// TestJukeboxHoldsNobodyUp: while the server wants the WRITEs of one file later,
// and while it answers none of another, a third one is written, with more data
// than fits one WRITE.
func TestJukeboxHoldsNobodyUp(t *testing.T) {
	for _, name := range []string{"later", "no answer"} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			srv := &picky{fake: newFake(t)}
			came := make(chan struct{}, 10*maxWriters)
			cfg := testConfig()
			cfg.WSize = 4096
			c := newCache(t, srv, cfg)
			slow, other := create(t, c, "slow"), create(t, c, "other")
			defer slow.Release()
			defer other.Release()
			srv.h = slow.i.h
			srv.treat = func() error {
				came <- struct{}{}
				if name == "no answer" {
					<-release
					return nil
				}
				return fail("WRITE", nfsclient.ErrJukebox)
			}
			want := pattern(4*maxWriters*cfg.WSize, 1)
			gone, give := context.WithCancel(ctx)
			var writer sync.WaitGroup
			writer.Go(func() {
				// It may have to wait for the file.
				n, err := slow.Write(gone, want, 0)
				if err != nil {
					t.Error(err)
				}
				for n < len(want) {
					k, err := slow.Write(ctx, want[n:], int64(n))
					if err != nil {
						t.Error(err)
						return
					}
					n += k
				}
			})
			for range 2 {
				<-came
			}
			write(t, other, want, 0)
			check(t, other.Fsync(ctx))
			if got := srv.content("other"); !bytes.Equal(got, want) {
				t.Errorf("%d bytes on disk, want %d; first difference at %d", len(got), len(want), differ(got, want))
			}
			srv.mu.Lock()
			srv.treat = nil
			srv.mu.Unlock()
			close(release)
			give()
			writer.Wait()
			check(t, slow.Fsync(ctx))
			if got := srv.content("slow"); !bytes.Equal(got, want) {
				t.Errorf("slow: %d bytes on disk, want %d; first difference at %d", len(got), len(want), differ(got, want))
			}
			if slow.i.wb.State().Sending != writeback.Free {
				t.Error("the file is still slow")
			}
		})
	}
}

// TestJukeboxTakesLittleMemory: who writes to a file that the server wants later
// waits before all memory is filled.
func TestJukeboxTakesLittleMemory(t *testing.T) {
	srv := &picky{fake: newFake(t)}
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	srv.h = f.i.h
	srv.treat = func() error { return fail("WRITE", nfsclient.ErrJukebox) }
	await := func(what func() bool) {
		for done := false; !done; runtime.Gosched() {
			f.i.mu.Lock()
			done = what()
			f.i.mu.Unlock()
		}
	}
	write(t, f, pattern(c.cfg.WSize, 1), 0)
	await(func() bool { return f.i.wb.State().Sending != writeback.Free })
	impatient, give := context.WithCancel(ctx)
	large := pattern(c.cfg.MaxDirty/2, 1)
	written := make(chan int)
	go func() {
		n, _ := f.Write(impatient, large, 0)
		written <- n
	}()
	await(f.i.wb.Crowded)
	give()
	n := <-written
	if n == 0 || n == len(large) {
		t.Errorf("%d of %d bytes were taken", n, len(large))
	}
	srv.mu.Lock()
	srv.treat = nil
	srv.mu.Unlock()
	check(t, f.Fsync(ctx))
	if got := srv.content("a"); !bytes.Equal(got, large[:n]) {
		t.Errorf("%d bytes on disk, want %d", len(got), n)
	}
}
