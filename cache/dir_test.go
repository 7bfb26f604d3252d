package cache

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

func listAll(t testing.TB, c *Cache, step int) map[string]int {
	t.Helper()
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	seen := map[string]int{}
	for off := uint64(0); ; {
		l := must[[]Dirent](t)(d.Next(ctx, off))
		if len(l) == 0 {
			return seen
		}
		for _, e := range l[:min(step, len(l))] { // as a small reader would take them
			seen[e.Name]++
			off = e.Off
		}
	}
}

func bigDir(t testing.TB, srv *fake, n int) {
	for k := range n {
		srv.foreign(fmt.Sprintf("file%05d", k), nil)
	}
}

func TestDirectoryIsListedWhole(t *testing.T) {
	for _, dots := range []bool{true, false} {
		for _, step := range []int{1, 7, 1000} {
			srv := newFake(t)
			srv.dots = dots
			bigDir(t, srv, 950)
			c := newCache(t, srv, testConfig())
			seen := listAll(t, c, step)
			if len(seen) != 952 || seen["."] != 1 || seen[".."] != 1 {
				t.Fatalf("dots %v, step %d: %d names, . %d times, .. %d times", dots, step, len(seen), seen["."], seen[".."])
			}
			for name, n := range seen {
				if n != 1 {
					t.Fatalf("%s %d times", name, n)
				}
			}
		}
	}
}

func TestEmptyDirectory(t *testing.T) {
	for _, dots := range []bool{true, false} {
		srv := newFake(t)
		srv.dots = dots
		if seen := listAll(t, newCache(t, srv, testConfig()), 1); len(seen) != 2 {
			t.Errorf("dots %v: %v", dots, seen)
		}
	}
}

func TestListingFillsNamesAndAttributes(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 500)
	c := newCache(t, srv, testConfig())
	listAll(t, c, 1000)
	before := srv.total()
	for k := range 500 {
		e := lookup(t, c, fmt.Sprintf("file%05d", k))
		if _, _, err := c.GetAttr(ctx, alice, e.Inode); err != nil {
			t.Fatal(err)
		}
	}
	if n := srv.total() - before; n != 0 {
		t.Errorf("%d calls after the listing", n)
	}
}

// A server whose cookies go round in circles must not be listed for ever.
func TestCircularDirectoryEnds(t *testing.T) {
	for _, back := range []int{1, 2, 17, 38, 39} {
		srv := newFake(t)
		srv.part, srv.dots = 10, false
		bigDir(t, srv, 500)
		list := srv.nodes["h1"].entries
		// The last cookie of part 40 is that of an earlier one.
		srv.jump = [2]uint64{list[10*back-1].cookie, list[10*40-1].cookie}
		c := newCache(t, srv, testConfig())
		for _, stale := range []bool{false, true} {
			d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
			var err error
			for off, parts := uint64(0), 0; err == nil; parts++ {
				var l []Dirent
				l, err = d.Next(ctx, off)
				if err == nil && (len(l) == 0 || parts > 200) {
					t.Fatalf("back to part %d: %d parts and no error", back, parts)
				}
				if err == nil {
					off = l[len(l)-1].Off
				}
				if stale && parts == 0 {
					srv.badDirs, off = 1, 1<<40
				}
			}
			if !errors.Is(err, ErrServer) {
				t.Errorf("back to part %d: %v", back, err)
			}
			d.Close()
		}
	}
}

func TestStaleCookieIsFoundAgain(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 450)
	c := newCache(t, srv, testConfig())
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	seen := map[string]int{}
	off := uint64(0)
	for part := 0; ; part++ {
		switch part {
		case 2:
			srv.badDirs = 1
		case 3:
			// The entry to go on from is removed, too.
			srv.mu.Lock()
			srv.unlink(srv.nodes["h1"], srv.nodes["h1"].find(fmt.Sprintf("file%05d", len(seen)-3)))
			srv.mu.Unlock()
			srv.badDirs = 1
		}
		l := must[[]Dirent](t)(d.Next(ctx, off))
		if len(l) == 0 {
			break
		}
		for _, e := range l {
			seen[e.Name]++
			off = e.Off
		}
	}
	for k := range 450 {
		name := fmt.Sprintf("file%05d", k)
		// With its place gone, one entry behind it may be missed, none twice.
		if n := seen[name]; n > 1 || n == 0 && k != 298 {
			t.Errorf("%s %d times", name, n)
		}
	}
}

func TestSeek(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 300)
	c := newCache(t, srv, testConfig())
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	var all []Dirent
	for off := uint64(0); ; {
		l := must[[]Dirent](t)(d.Next(ctx, off))
		if len(l) == 0 {
			break
		}
		all = append(all, l...)
		off = all[len(all)-1].Off
	}
	for _, k := range []int{0, 150, 42, 299} {
		l := must[[]Dirent](t)(d.Next(ctx, all[k].Off))
		if len(l) == 0 || l[0].Name != all[k+1].Name {
			t.Errorf("behind entry %d: %d entries", k, len(l))
		}
	}
	if l := must[[]Dirent](t)(d.Next(ctx, all[len(all)-1].Off)); len(l) != 0 {
		t.Errorf("behind the end: %d entries", len(l))
	}
}

func TestServerWithoutReaddirplus(t *testing.T) {
	srv := newFake(t)
	srv.hook = func(op string, done bool) error {
		if op == "READDIRPLUS" {
			return fail(op, nfsclient.ErrNotSupp)
		}
		return nil
	}
	bigDir(t, srv, 150)
	c := newCache(t, srv, testConfig())
	if seen := listAll(t, c, 1000); len(seen) != 152 {
		t.Errorf("%d names", len(seen))
	}
}

func TestUnreadableDirectory(t *testing.T) {
	srv := newFake(t)
	srv.nodes["h1"].denied = map[uint32]nfsclient.AccessMask{alice.UID: nfsclient.AccessRead}
	c := newCache(t, srv, testConfig())
	if _, err := c.OpenDir(ctx, alice, c.Root()); status(err) != nfsclient.ErrAccess {
		t.Errorf("opendir: %v", err)
	}
}
