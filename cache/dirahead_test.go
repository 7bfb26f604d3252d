package cache

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// reader reads an open directory as fs does, in pieces.
type reader struct {
	d     *Dir
	off   uint64
	names map[string]int
	ahead int // parts that had been asked for when they were wanted
}

// next takes n entries at most, and reports whether there were any.
func (r *reader) next(t *testing.T, n int) bool {
	t.Helper()
	if a := r.d.ahead; a != nil && a.from == r.off {
		<-a.done
		r.ahead++
	}
	l := must[[]Dirent](t)(r.d.Next(ctx, r.off))
	for _, e := range l[:min(n, len(l))] {
		r.names[e.Name]++
		r.off = e.Off
	}
	r.d.Given(r.off)
	return len(l) > 0
}

// TestDirectoryReadAhead: who reads on in a directory finds the next part asked for, at no
// more calls, and is given it if it is as good as one that is read then.
func TestDirectoryReadAhead(t *testing.T) {
	const files, parts = 500, 6 // with "." and "..", 100 in each
	for name, r := range map[string]struct {
		between      func(t *testing.T, srv *fake, c *Cache, k *clock)
		noac         bool
		calls, ahead int
	}{
		"nothing": {func(*testing.T, *fake, *Cache, *clock) {}, false, parts, parts - 1},
		"noac":    {func(*testing.T, *fake, *Cache, *clock) {}, true, parts, 0},
		// One is discarded, and no other is asked for.
		"later":      {func(_ *testing.T, _ *fake, _ *Cache, k *clock) { k.advance(3 * time.Second) }, false, parts + 1, 1},
		"own change": {func(t *testing.T, _ *fake, c *Cache, _ *clock) { mkdir(t, c, c.Root(), "new") }, false, parts + 1, 1},
		"another's change, seen": {func(t *testing.T, srv *fake, c *Cache, _ *clock) {
			srv.foreign("new", nil)
			d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
			d.Close()
		}, false, parts + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			srv, k := newFake(t), newClock()
			bigDir(t, srv, files)
			cfg := testConfig()
			cfg.Now, cfg.NoAC, cfg.AcRegMin = k.now, r.noac, 3*time.Second
			c := newCache(t, srv, cfg)
			d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
			defer d.Close()
			for pass := range 2 { // the second one rewinds
				all := reader{d: d, names: map[string]int{}}
				before := srv.count("READDIRPLUS")
				all.next(t, 40)
				if d.ahead != nil {
					t.Fatal("a part is read ahead of who has looked at the first entries")
				}
				all.next(t, 40)
				if a := d.ahead; a != nil {
					<-a.done
				} else if !r.noac {
					t.Fatal("nothing is read ahead of who reads on")
				}
				calls, ahead := parts, parts-1
				if pass == 0 || r.noac {
					calls, ahead = r.calls, r.ahead
				}
				if pass == 0 {
					r.between(t, srv, c, k)
				}
				for all.next(t, 70) {
				}
				if n := srv.count("READDIRPLUS") - before; n != calls {
					t.Errorf("pass %d: %d READDIRPLUS, want %d", pass, n, calls)
				}
				if all.ahead != ahead {
					t.Errorf("pass %d: %d parts were read ahead, want %d", pass, all.ahead, ahead)
				}
				for _, name := range append(srv.names(), ".", "..") {
					if all.names[name] != 1 {
						t.Errorf("pass %d: %s is listed %d times", pass, name, all.names[name])
					}
				}
			}
		})
	}
}

// TestSeekReadsNothingAhead: a seek, to what is held or elsewhere, costs the call that it needs.
func TestSeekReadsNothingAhead(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 1000)
	c := newCache(t, srv, testConfig())
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	l := must[[]Dirent](t)(d.Next(ctx, 0))
	for _, k := range []int{50, 10, 99, 20} {
		d.Given(l[30].Off)
		must[[]Dirent](t)(d.Next(ctx, l[k].Off))
		if d.ahead != nil {
			t.Errorf("a part is read ahead of who has gone from entry 30 to %d", k)
		}
	}
	if n := srv.count("READDIRPLUS"); n != 2 {
		t.Errorf("%d READDIRPLUS, want 2", n)
	}
}

// holdAhead opens a directory and has its second part read ahead by a call that answers
// when answer is called, with err if that is not nil.
func holdAhead(t *testing.T, srv *fake, c *Cache, err error) (r *reader, answer func()) {
	t.Helper()
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	r = &reader{d: d, names: map[string]int{}}
	r.next(t, 10)
	begun, release := make(chan struct{}), make(chan struct{})
	held := false
	srv.hook = func(op string, done bool) error {
		if op != "READDIRPLUS" || done || held {
			return nil
		}
		held = true
		close(begun)
		<-release
		return err
	}
	r.next(t, 1000)
	<-begun
	return r, func() { close(release) }
}

// TestDirectoryReadAheadWaits: who wants a part that is being read ahead waits for it, as long
// as its context allows, and asks itself if the call has failed.
func TestDirectoryReadAheadWaits(t *testing.T) {
	for _, failed := range []error{nil, fail("READDIRPLUS", nfsclient.ErrIO)} {
		srv := newFake(t)
		bigDir(t, srv, 150)
		c := newCache(t, srv, testConfig())
		r, answer := holdAhead(t, srv, c, failed)
		killed, kill := context.WithCancel(ctx)
		kill()
		if _, err := r.d.Next(killed, r.off); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that is interrupted returns %v", err)
		}
		answer()
		for r.next(t, 1000) {
		}
		if len(r.names) != 152 {
			t.Errorf("%d names, want 152", len(r.names))
		}
		if n := srv.count("READDIRPLUS"); n != 2 { // calls that have succeeded
			t.Errorf("%d READDIRPLUS, want 2", n)
		}
		r.d.Close()
	}
}

// TestCloseWhileReadingAhead: a directory can be closed meanwhile, and Close of the cache ends
// the call.
func TestCloseWhileReadingAhead(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 150)
	c := newCache(t, srv, testConfig())
	before := c.Root().refs.Load()
	r, answer := holdAhead(t, srv, c, nil)
	r.d.Close()
	answer()
	check(t, c.Close(ctx))
	if n := c.Root().refs.Load(); n != before {
		t.Errorf("%d references to the directory, %d before", n, before)
	}
}
