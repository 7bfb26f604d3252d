package cache

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// refuse makes ops fail with status while on.
type refuse struct {
	mu     sync.Mutex
	op     string
	status nfsclient.Status
}

func (r *refuse) set(op string, s nfsclient.Status) {
	r.mu.Lock()
	r.op, r.status = op, s
	r.mu.Unlock()
}

func (r *refuse) hook(op string, done bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !done && op == r.op {
		return fail(op, r.status)
	}
	return nil
}

func TestWriteErrorsAreReportedOncePerOpening(t *testing.T) {
	for _, s := range []nfsclient.Status{nfsclient.ErrNoSpace, nfsclient.ErrDQuot, nfsclient.ErrIO, nfsclient.ErrStale, nfsclient.ErrAccess} {
		for _, op := range []string{"WRITE", "COMMIT"} {
			var r refuse
			srv := newFake(t)
			srv.hook = r.hook
			c := newCache(t, srv, testConfig())
			f := create(t, c, "a")
			g, _, err := c.Open(ctx, alice, f.i, rw)
			check(t, err)
			r.set(op, s)
			write(t, f, pattern(200_000, 1), 0)
			if err := f.Flush(ctx); status(err) != s {
				t.Errorf("%s, %v: flush: %v", op, s, err)
			}
			if err := f.Fsync(ctx); err != nil {
				t.Errorf("%s, %v: reported twice: %v", op, s, err)
			}
			if _, err := g.Write(ctx, []byte("x"), 0); status(err) != s {
				t.Errorf("%s, %v: other opening's write: %v", op, s, err)
			}
			r.set("", 0)
			write(t, g, []byte("x"), 0)
			check(t, g.Flush(ctx))
			f.Release()
			g.Release()
		}
	}
}

func TestLostDataThatNobodyWasToldOf(t *testing.T) {
	var r refuse
	srv := newFake(t)
	srv.hook = r.hook
	pool, err := bufpool.New(bufpool.Config{Limit: 1})
	check(t, err)
	c, err := New(srv, pool, testConfig())
	check(t, err)
	f := create(t, c, "a")
	write(t, f, []byte("x"), 0)
	f.Release() // without Flush
	r.set("WRITE", nfsclient.ErrNoSpace)
	if err := c.Close(ctx); status(err) != nfsclient.ErrNoSpace {
		t.Errorf("Close: %v", err)
	}
	check(t, pool.Close())
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	srv := newFake(t)
	pool, err := bufpool.New(bufpool.Config{Limit: 1})
	check(t, err)
	c, err := New(srv, pool, testConfig())
	check(t, err)
	f := create(t, c, "a")
	write(t, f, pattern(200_000, 1), 0)
	f.Release()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.Close(gone); !errors.Is(err, ErrClosed) {
		t.Errorf("Close: %v", err)
	}
	check(t, pool.Close())
}

func TestInterruptedFsyncLosesNothing(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, []byte("x"), 0)
	release := make(chan struct{})
	srv.hook = func(op string, done bool) error {
		if op == "WRITE" {
			<-release // else its answer may come before the end of ctx is seen
		}
		return nil
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := f.Fsync(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("fsync: %v", err)
	}
	close(release)
	check(t, f.Fsync(ctx))
	if string(srv.content("a")) != "x" {
		t.Error("the byte is not on disk")
	}
}

// A file whose last name that we knew of was removed here may have another one,
// made elsewhere: what is written by that one must not be lost in silence.
func TestErrorsAreReportedByANameMadeElsewhere(t *testing.T) {
	var r refuse
	srv := newFake(t)
	srv.hook = r.hook
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	check(t, f.Flush(ctx))
	f.Release()
	srv.mu.Lock()
	d := srv.nodes["h1"]
	d.link("b", f.i.h)
	srv.nodes[f.i.h].attr.Nlink++
	srv.touchDir(d)
	srv.mu.Unlock()
	check(t, c.Unlink(ctx, alice, c.Root(), "a"))
	g, _ := open(t, c, "b", rw)
	defer g.Release()
	r.set("WRITE", nfsclient.ErrNoSpace)
	write(t, g, []byte("x"), 0)
	if err := g.Fsync(ctx); status(err) != nfsclient.ErrNoSpace {
		t.Errorf("fsync: %v", err)
	}
}
