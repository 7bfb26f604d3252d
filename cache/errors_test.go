package cache

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/testlog"
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

// TestOnlyFsyncSettlesAWriteError: each opening's writes and closes fail until
// its own fsync has failed once.
func TestOnlyFsyncSettlesAWriteError(t *testing.T) {
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
			for range 2 {
				if err := f.Flush(ctx); status(err) != s {
					t.Errorf("%s, %v: flush: %v", op, s, err)
				}
				if _, err := f.Write(ctx, []byte("x"), 0); status(err) != s {
					t.Errorf("%s, %v: write: %v", op, s, err)
				}
			}
			if err := f.Fsync(ctx); status(err) != s {
				t.Errorf("%s, %v: fsync: %v", op, s, err)
			}
			for n, again := range []func(context.Context) error{f.Fsync, f.Flush} {
				if err := again(ctx); err != nil {
					t.Errorf("%s, %v, %d: settled, but told again: %v", op, s, n, err)
				}
			}
			for range 2 {
				if _, err := g.Write(ctx, []byte("x"), 0); status(err) != s {
					t.Errorf("%s, %v: other opening's write: %v", op, s, err)
				}
			}
			r.set("", 0)
			write(t, f, []byte("x"), 0)
			check(t, f.Flush(ctx))
			if err := g.Fsync(ctx); status(err) != s {
				t.Errorf("%s, %v: other opening's fsync: %v", op, s, err)
			}
			write(t, g, []byte("x"), 0)
			check(t, g.Flush(ctx))
			f.Release()
			g.Release()
		}
	}
}

// TestErrorsThatOthersHear: an error reaches fsync and close of an opening whose
// descriptor another process has closed; one that no program was told of reaches
// the next fsync, or, if there is none, the log and Close, by path.
func TestErrorsThatOthersHear(t *testing.T) {
	for _, name := range []string{"fsync", "close", "later fsync", "Close", "Close, hidden"} {
		t.Run(name, func(t *testing.T) {
			var r refuse
			srv := newFake(t)
			srv.hook = r.hook
			var mu sync.Mutex
			var log []string
			cfg := testConfig()
			cfg.Log = testlog.To(func(message string) {
				mu.Lock()
				log = append(log, message)
				mu.Unlock()
			})
			c := newCache(t, srv, cfg)
			e := must[Entry](t)(c.Mkdir(ctx, alice, c.Root(), "d", nfsclient.SetAttr{}))
			dir := e.Inode
			defer c.Forget(dir, 1)
			e, f, err := c.Create(ctx, alice, dir, "a", nfsclient.SetAttr{}, false, rw)
			check(t, err)
			defer c.Forget(e.Inode, 1)
			if name == "Close, hidden" {
				check(t, c.Unlink(ctx, alice, dir, "a"))
			}
			r.set("WRITE", nfsclient.ErrNoSpace)
			write(t, f, pattern(200_000, 1), 0)
			if name == "fsync" || name == "close" {
				if err := f.Flush(ctx); status(err) != nfsclient.ErrNoSpace {
					t.Errorf("close by another: %v", err)
				}
			} else {
				check(t, f.i.sync(ctx))
			}
			r.set("", 0)
			switch name {
			case "fsync":
				if err := f.Fsync(ctx); status(err) != nfsclient.ErrNoSpace {
					t.Errorf("fsync: %v", err)
				}
			case "close":
				if err := f.Flush(ctx); status(err) != nfsclient.ErrNoSpace {
					t.Errorf("close: %v", err)
				}
			}
			if len(log) != 0 {
				t.Errorf("logged, though somebody may be told: %q", log)
			}
			f.Release()
			if name == "later fsync" {
				g, _, err := c.Open(ctx, alice, dir.dentry("a").child, rw)
				check(t, err)
				write(t, g, []byte("x"), 0) // nothing of its own was lost
				check(t, g.Flush(ctx))
				if err := g.Fsync(ctx); status(err) != nfsclient.ErrNoSpace {
					t.Errorf("fsync of the next opening: %v", err)
				}
				check(t, g.Fsync(ctx))
				g.Release()
			}
			err = c.Close(ctx)
			mu.Lock()
			said := strings.Join(log, " ")
			mu.Unlock()
			if !strings.HasPrefix(name, "Close") {
				if err != nil {
					t.Errorf("Close tells what a program was told: %v", err)
				}
				if logged := name == "later fsync"; logged != (said != "") {
					t.Errorf("logged: %q", said)
				}
				return
			}
			want := `"/d/a"`
			if name == "Close, hidden" {
				want += " (removed while open)"
			}
			if status(err) != nfsclient.ErrNoSpace || !strings.Contains(err.Error(), want) {
				t.Errorf("Close: %v, want %s in it", err, want)
			}
			if strings.Count(said, want) != 1 {
				t.Errorf("logged: %q", said)
			}
		})
	}
}

// TestPagesAreWrittenInSpiteOfAnError: the kernel gives up on pages that it was
// refused to write back.
func TestPagesAreWrittenInSpiteOfAnError(t *testing.T) {
	var r refuse
	srv := newFake(t)
	srv.hook = r.hook
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	r.set("WRITE", nfsclient.ErrNoSpace)
	write(t, f, []byte("gone"), 0)
	check(t, f.i.drain(ctx))
	r.set("", 0)
	if n, err := f.WriteBack(ctx, []byte("pages"), 0); n != 5 || err != nil {
		t.Errorf("%d pages' bytes, %v", n, err)
	}
	if err := f.Fsync(ctx); status(err) != nfsclient.ErrNoSpace {
		t.Errorf("fsync: %v", err)
	}
	if got := string(srv.content("a")); got != "pages" {
		t.Errorf("the server has %q", got)
	}
}

// TestStableWritesTryAgain: who opens with O_SYNC or O_DIRECT need not fsync to go
// on after an error.
func TestStableWritesTryAgain(t *testing.T) {
	for _, mode := range []OpenMode{{Write: true, Sync: true}, {Write: true, Direct: true}} {
		var r refuse
		srv := newFake(t)
		srv.hook = r.hook
		c := newCache(t, srv, testConfig())
		create(t, c, "a").Release()
		f, _ := open(t, c, "a", mode)
		r.set("WRITE", nfsclient.ErrNoSpace)
		for range 2 {
			if _, err := f.Write(ctx, []byte("x"), 0); status(err) != nfsclient.ErrNoSpace {
				t.Errorf("%+v: %v", mode, err)
			}
		}
		r.set("", 0)
		write(t, f, []byte("x"), 0)
		if got := string(srv.content("a")); got != "x" {
			t.Errorf("%+v: the server has %q", mode, got)
		}
		f.Release()
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
