package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestListedAgain: a directory that is opened again within acregmin, and is in the same
// state, is not read again. Everything else has it read anew, as does rewinding.
func TestListedAgain(t *testing.T) {
	const files = 250
	for name, r := range map[string]struct {
		between func(t *testing.T, srv *fake, c *Cache, k *clock)
		noac    bool
		again   int // READDIRPLUS of the second listing, and of one more after rewinding
		rewound int
	}{
		"nothing": {func(*testing.T, *fake, *Cache, *clock) {}, false, 0, 3},
		"noac":    {func(*testing.T, *fake, *Cache, *clock) {}, true, 3, 3},
		"later":   {func(_ *testing.T, _ *fake, _ *Cache, k *clock) { k.advance(3 * time.Second) }, false, 3, 3},
		"another's change": {func(_ *testing.T, srv *fake, _ *Cache, _ *clock) {
			srv.foreign("new", nil)
		}, false, 3, 3},
		"own change": {func(t *testing.T, _ *fake, c *Cache, _ *clock) { mkdir(t, c, c.Root(), "new") }, false, 3, 3},
		"own change within a tick": {func(t *testing.T, srv *fake, c *Cache, _ *clock) {
			srv.mu.Lock()
			was := srv.nodes["h1"].attr
			srv.mu.Unlock()
			check(t, c.Unlink(ctx, alice, c.Root(), "f0"))
			mkdir(t, c, c.Root(), "new") // as many entries as before
			srv.mu.Lock()
			srv.nodes["h1"].attr = was
			srv.mu.Unlock()
		}, false, 3, 3},
		"part of it read": {func(t *testing.T, _ *fake, c *Cache, _ *clock) {
			mkdir(t, c, c.Root(), "new")
			d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
			must[[]Dirent](t)(d.Next(ctx, 0))
			d.Close()
		}, false, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			srv, k := newFake(t), newClock()
			for n := range files {
				srv.foreign(fmt.Sprint("f", n), nil)
			}
			cfg := testConfig()
			cfg.Now, cfg.NoAC, cfg.AcRegMin = k.now, r.noac, 3*time.Second
			c := newCache(t, srv, cfg)
			list := func(d *Dir) (names map[string]int, cost int) {
				names = map[string]int{}
				before := srv.count("READDIRPLUS")
				for l := must[[]Dirent](t)(d.Next(ctx, 0)); len(l) > 0; l = must[[]Dirent](t)(d.Next(ctx, l[len(l)-1].Off)) {
					for _, e := range l {
						names[e.Name]++
					}
				}
				return names, srv.count("READDIRPLUS") - before
			}
			// same compares a listing with what the server has.
			same := func(names map[string]int) {
				t.Helper()
				all := srv.names()
				for _, name := range all {
					if names[name] != 1 {
						t.Errorf("%s is listed %d times", name, names[name])
					}
				}
				if len(names) != len(all)+2 {
					t.Errorf("%d names of %d, and two", len(names), len(all))
				}
			}
			d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
			list(d)
			d.Close()
			r.between(t, srv, c, k)
			d = must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
			defer d.Close()
			names, cost := list(d)
			same(names)
			if cost != r.again {
				t.Errorf("%d READDIRPLUS, want %d", cost, r.again)
			}
			names, cost = list(d)
			same(names)
			if cost != r.rewound {
				t.Errorf("%d READDIRPLUS after rewinding, want %d", cost, r.rewound)
			}
		})
	}
}

// TestListingsKept: few are, of few entries, and none of a directory that is gone.
func TestListingsKept(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	list := func(dir *Inode) {
		d := must[*Dir](t)(c.OpenDir(ctx, alice, dir))
		defer d.Close()
		for l := must[[]Dirent](t)(d.Next(ctx, 0)); len(l) > 0; l = must[[]Dirent](t)(d.Next(ctx, l[len(l)-1].Off)) {
		}
	}
	var all []*Inode
	for n := range 2 * maxRelists {
		e := must[Entry](t)(c.Mkdir(ctx, alice, c.Root(), fmt.Sprint("d", n), nfsclient.SetAttr{}))
		list(e.Inode)
		all = append(all, e.Inode)
	}
	kept := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.relists) }
	if n := kept(); n != maxRelists {
		t.Errorf("%d listings are kept", n)
	}
	for n := range maxRelisted {
		srv.foreign(fmt.Sprint("f", n), nil)
	}
	list(c.Root())
	if n := kept(); n != maxRelists {
		t.Errorf("a long listing is kept, or another dropped for it: %d", n)
	}
	for n, i := range all {
		check(t, c.Rmdir(ctx, alice, c.Root(), fmt.Sprint("d", n)))
		c.Forget(i, 1)
	}
	if n, entries := kept(), c.listed.Load(); n != 0 || entries != 0 {
		t.Errorf("%d listings of %d entries are left of directories that are gone", n, entries)
	}
}
