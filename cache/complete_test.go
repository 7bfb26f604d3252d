package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// mkdir makes a directory below dir, which is forgotten when the test ends.
func mkdir(t testing.TB, c *Cache, dir *Inode, name string) *Inode {
	t.Helper()
	e := must[Entry](t)(c.Mkdir(ctx, alice, dir, name, nfsclient.SetAttr{}))
	t.Cleanup(func() { c.Forget(e.Inode, 1) })
	return e.Inode
}

// lookups is how many LOOKUPs it takes to find that name is not in dir.
func (f *fake) lookups(t testing.TB, c *Cache, dir *Inode, name string) int {
	t.Helper()
	before := f.count("LOOKUP")
	if _, err := c.Lookup(ctx, alice, dir, name); status(err) != nfsclient.ErrNoEnt {
		t.Fatalf("%s: %v", name, err)
	}
	return f.count("LOOKUP") - before
}

// TestOwnDirectoryIsKnown: in a directory that was made here, a name that was never
// looked at is known not to exist, once the user's right to look is known. What ends
// that is named; a LOOKUP a name is what it costs then.
func TestOwnDirectoryIsKnown(t *testing.T) {
	lost := errors.New("connection lost")
	for _, c := range []struct {
		name  string
		do    func(t *testing.T, srv *fake, c *Cache, dir *Inode)
		known bool
	}{
		{"nothing", func(*testing.T, *fake, *Cache, *Inode) {}, true},
		{"own changes", func(t *testing.T, _ *fake, c *Cache, dir *Inode) {
			mkdir(t, c, dir, "sub")
			for _, name := range []string{"a", "b"} {
				e, f, err := c.Create(ctx, alice, dir, name, nfsclient.SetAttr{}, true, rw)
				check(t, err)
				f.Release()
				c.Forget(e.Inode, 1)
			}
			check(t, c.Rename(ctx, alice, dir, "a", dir, "c"))
			check(t, c.Rename(ctx, alice, dir, "c", c.Root(), "c"))
			check(t, c.Unlink(ctx, alice, dir, "b"))
			check(t, c.Rmdir(ctx, alice, dir, "sub"))
		}, true},
		{"a directory that is not empty", func(t *testing.T, _ *fake, c *Cache, dir *Inode) {
			mkdir(t, c, mkdir(t, c, dir, "sub"), "sub")
			if err := c.Rmdir(ctx, alice, dir, "sub"); status(err) != nfsclient.ErrNotEmpty {
				t.Errorf("rmdir: %v", err)
			}
		}, true},
		{"chmod", func(t *testing.T, srv *fake, c *Cache, dir *Inode) {
			mode := uint32(0o700)
			_, _, err := c.SetAttr(ctx, alice, dir, nfsclient.SetAttr{Mode: &mode})
			check(t, err)
			srv.lookups(t, c, dir, "again") // rights are asked for anew
		}, true},
		{"listed", func(t *testing.T, _ *fake, c *Cache, dir *Inode) {
			mkdir(t, c, dir, "sub")
			d := must[*Dir](t)(c.OpenDir(ctx, alice, dir))
			defer d.Close()
			must[[]Dirent](t)(d.Next(ctx, 0))
		}, true},
		{"another's change, seen by attributes", func(t *testing.T, srv *fake, c *Cache, dir *Inode) {
			srv.foreignIn(dir.h, "theirs")
			check(t, c.revalidate(ctx, alice, dir))
		}, false},
		{"another's change, seen by an own one", func(t *testing.T, srv *fake, c *Cache, dir *Inode) {
			srv.foreignIn(dir.h, "theirs")
			mkdir(t, c, dir, "sub")
		}, false},
		{"another's name, found though the state is the same", func(t *testing.T, srv *fake, c *Cache, dir *Inode) {
			srv.mu.Lock()
			d := srv.nodes[dir.h]
			d.link(".hidden", srv.add(nfsclient.Regular, 0o644).h) // within a tick of the server's clock
			srv.mu.Unlock()
			e := must[Entry](t)(c.Lookup(ctx, alice, dir, ".hidden"))
			c.Forget(e.Inode, 1)
		}, false},
		{"a call whose reply was lost", func(t *testing.T, srv *fake, c *Cache, dir *Inode) {
			srv.hook = func(op string, done bool) error {
				if op == "MKDIR" && done {
					return lost
				}
				return nil
			}
			if _, err := c.Mkdir(ctx, alice, dir, "sub", nfsclient.SetAttr{}); err == nil {
				t.Error("MKDIR succeeded")
			}
			srv.hook = nil
		}, false},
		{"a name forgotten", func(t *testing.T, _ *fake, c *Cache, dir *Inode) {
			mkdir(t, c, dir, "sub")
			dir.mu.Lock()
			dir.dropName("sub")
			dir.mu.Unlock()
		}, false},
		{"absence forgotten", func(t *testing.T, _ *fake, c *Cache, dir *Inode) {
			dir.mu.Lock()
			dir.dropName("first")
			dir.mu.Unlock()
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newFake(t)
			ca := newCache(t, srv, testConfig())
			dir := mkdir(t, ca, ca.Root(), "dir")
			if n := srv.lookups(t, ca, dir, "first"); n != 1 {
				t.Errorf("%d LOOKUPs to learn that the user may look", n)
			}
			c.do(t, srv, ca, dir)
			for k := range 3 {
				want := 1
				if c.known {
					want = 0
				}
				if n := srv.lookups(t, ca, dir, fmt.Sprint("new", k)); n != want {
					t.Errorf("%d LOOKUPs of a new name, want %d", n, want)
				}
			}
			if n := srv.lookups(t, ca, dir, ".snapshot"); n != 1 {
				t.Errorf("%d LOOKUPs of a name that only the server may know", n)
			}
		})
	}
}

// foreignIn makes a file in a directory as another client would.
func (f *fake) foreignIn(dir nfsclient.Handle, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes[dir]
	if d.find(name) < 0 {
		d.link(name, f.add(nfsclient.Regular, 0o644).h)
		f.touchDir(d)
	}
}

// foreignRemove removes a file as another client would.
func (f *fake) foreignRemove(dir nfsclient.Handle, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes[dir]
	if k := d.find(name); k >= 0 {
		f.unlink(d, k)
	}
}

// TestOwnDirectoryIsProved: the server is asked for a new name in an own directory when it
// has not shown the directory's state for acregmin, or not since another client was seen
// anywhere in the mount; the answer serves for the names that follow.
func TestOwnDirectoryIsProved(t *testing.T) {
	srv, k := newFake(t), newClock()
	cfg := testConfig()
	cfg.Now, cfg.AcRegMin = k.now, 3*time.Second
	c := newCache(t, srv, cfg)
	dir, elsewhere := mkdir(t, c, c.Root(), "dir"), mkdir(t, c, c.Root(), "elsewhere")
	srv.lookups(t, c, dir, "first") // the user may look
	asks := func(when string, want int) {
		t.Helper()
		for n := range 2 { // the second name is known by the answer for the first
			if got := srv.lookups(t, c, dir, fmt.Sprint(when, n)); got != want {
				t.Errorf("%s: %d LOOKUPs of a new name, want %d", when, got, want)
			}
			want = 0
		}
	}
	asks("at once", 0)
	k.advance(cfg.AcRegMin - 1)
	asks("just before acregmin", 0)
	mkdir(t, c, dir, "sub") // shows the state
	k.advance(cfg.AcRegMin - 1)
	asks("after an own change", 0)
	k.advance(1)
	asks("after acregmin", 1)
	srv.foreignIn(elsewhere.h, "theirs")
	check(t, c.revalidate(ctx, alice, elsewhere))
	asks("after a sign of another client", 1)

	if e, err := c.Lookup(ctx, alice, dir, "theirs"); status(err) != nfsclient.ErrNoEnt || e.EntryTTL != cfg.AcRegMin {
		t.Errorf("a name without a call: %v, to be believed for %v, want %v", err, e.EntryTTL, cfg.AcRegMin)
	}
	srv.foreignIn(dir.h, "theirs")
	k.advance(cfg.AcRegMin)
	e := must[Entry](t)(c.Lookup(ctx, alice, dir, "theirs"))
	c.Forget(e.Inode, 1)
}

// TestAnothersDirectoryIsAsked: a name that another client has just made is seen at
// the first look, in a directory that was not made here.
func TestAnothersDirectoryIsAsked(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	srv.lookups(t, c, c.Root(), "first")
	srv.foreign("theirs", nil)
	e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "theirs"))
	c.Forget(e.Inode, 1)
}

// moment is what a name stood for from a time on.
type moment struct {
	from time.Time
	h    nfsclient.Handle // empty: nothing
}

// TestOwnDirectoryModel: another client changes a directory that was made here between
// any two steps, and replies are lost; what a name is said to stand for it stood for at
// most acdirmax before, and what was done here is seen at once.
func TestOwnDirectoryModel(t *testing.T) {
	eachSeed(t, 40, true, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		srv, k := newFake(t), newClock()
		cfg := testConfig()
		cfg.Now, cfg.AcDirMin, cfg.AcDirMax = k.now, 30*time.Second, 60*time.Second
		c := newCache(t, srv, cfg)
		dir := mkdir(t, c, c.Root(), "dir")
		names := []string{"a", "b", "c", "d", "e"}
		past := map[string][]moment{}
		record := func() {
			srv.mu.Lock()
			defer srv.mu.Unlock()
			d := srv.nodes[dir.h]
			for _, name := range names {
				var h nfsclient.Handle
				if n := d.find(name); n >= 0 {
					h = d.entries[n].h
				}
				if p := past[name]; len(p) == 0 || p[len(p)-1].h != h {
					past[name] = append(p, moment{k.now(), h})
				}
			}
		}
		// held reports whether name stood for h at some time that may still be believed.
		held := func(name string, h nfsclient.Handle) bool {
			p, oldest := past[name], k.now().Add(-cfg.AcDirMax)
			for n, m := range p {
				if m.h == h && (n+1 == len(p) || !p[n+1].from.Before(oldest)) {
					return true
				}
			}
			return false
		}
		record()
		theirs := r.IntN(3) // how often the other client does something, of 10
		for step := range 300 {
			if r.IntN(10) < theirs {
				name := names[r.IntN(len(names))]
				if r.IntN(2) == 0 {
					srv.foreignIn(dir.h, name)
				} else {
					srv.foreignRemove(dir.h, name)
				}
				record()
			}
			if r.IntN(40) == 0 {
				srv.hook = func(_ string, done bool) error {
					if done {
						return errors.New("connection lost")
					}
					return nil
				}
			}
			name, other := names[r.IntN(len(names))], names[r.IntN(len(names))]
			var err error
			var done []string // what an own change was about
			switch r.IntN(12) {
			case 0, 1:
				done = []string{name}
				var e Entry
				var f *File
				if e, f, err = c.Create(ctx, alice, dir, name, nfsclient.SetAttr{}, true, rw); err == nil {
					f.Release()
					c.Forget(e.Inode, 1)
				}
			case 2:
				done = []string{name}
				err = c.Unlink(ctx, alice, dir, name)
			case 3:
				done = []string{name, other}
				err = c.Rename(ctx, alice, dir, name, dir, other)
			case 4:
				var d *Dir
				if d, err = c.OpenDir(ctx, alice, dir); err == nil {
					_, err = d.Next(ctx, 0)
					d.Close()
				}
			case 5:
				k.advance(time.Duration(r.IntN(40)) * time.Second)
			default:
				e, err := c.Lookup(ctx, alice, dir, name)
				if err != nil && status(err) != nfsclient.ErrNoEnt {
					break
				}
				var h nfsclient.Handle
				if err == nil {
					h = e.Inode.h
					c.Forget(e.Inode, 1)
				}
				if !held(name, h) {
					t.Fatalf("step %d: %s is %q, of the past %v at %v", step, name, h, past[name], k.now())
				}
			}
			srv.hook = nil
			record()
			for _, name := range done {
				if err == nil { // seen at once
					past[name] = past[name][len(past[name])-1:]
				}
			}
		}
	})
}
