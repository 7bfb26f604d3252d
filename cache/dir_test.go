package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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

// knownOf is Dir.Known for alice in the root.
func knownOf(c *Cache, name string) (Entry, bool) {
	return (&Dir{c: c, i: c.Root(), cr: alice}).Known(name)
}

func bigDir(t testing.TB, srv *fake, n int) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	d := srv.nodes["h1"]
	for k := range n {
		d.link(fmt.Sprintf("file%05d", k), srv.add(nfsclient.Regular, 0o644).h)
	}
	srv.touchDir(d)
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

// TestListingAsksForNoName: a listing costs one ACCESS and one READDIRPLUS a
// part, and READDIRPLUS answers to the kernel (Known) cost none, although nothing
// may be cached and although the directory is being changed here meanwhile.
func TestListingAsksForNoName(t *testing.T) {
	noac, timeout0 := testConfig(), testConfig()
	noac.NoAC = true
	timeout0.AcRegMin, timeout0.AcRegMax, timeout0.AcDirMin, timeout0.AcDirMax = 0, 0, 0, 0
	list := func(t *testing.T, srv *fake, c *Cache) {
		before := srv.total()
		for name := range listAll(t, c, 1000) {
			if e, ok := knownOf(c, name); ok {
				c.Forget(e.Inode, 1)
			}
		}
		if n := srv.total() - before; n != 2 || srv.count("LOOKUP") > 0 {
			t.Errorf("%d calls, %d of them LOOKUPs", n, srv.count("LOOKUP"))
		}
	}
	for name, cf := range map[string]Config{"noac": noac, "actimeo=0": timeout0, "cached": testConfig()} {
		t.Run(name, func(t *testing.T) {
			srv := newFake(t)
			bigDir(t, srv, 50)
			c := newCache(t, srv, cf)
			list(t, srv, c)
		})
		t.Run(name+", changing", func(t *testing.T) {
			srv := newFake(t)
			bigDir(t, srv, 50)
			c := newCache(t, srv, cf)
			listed := false
			srv.hook = func(op string, done bool) error {
				if op == "MKDIR" && !done {
					list(t, srv, c)
					listed = true
				}
				return nil
			}
			e := must[Entry](t)(c.Mkdir(ctx, alice, c.Root(), "d", nfsclient.SetAttr{}))
			c.Forget(e.Inode, 1)
			if !listed {
				t.Error("nothing was listed")
			}
		})
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
	srv.noPlus = true
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

// fillFrom takes n entries behind off as fs does: the server is asked for the
// first, and not for what the rest of the reader's room may hold.
func fillFrom(t testing.TB, d *Dir, off uint64, n int) (all []Dirent) {
	t.Helper()
	for l := must[[]Dirent](t)(d.Next(ctx, off)); len(l) > 0 && len(all) < n; l = d.Held(all[len(all)-1].Off) {
		all = append(all, l...)
	}
	return all[:min(n, len(all))]
}

// walkDir lists d from its start, and then looks at steps random places; at
// each it has check see the READDIRs that took, and compares the entries.
func walkDir(t *testing.T, srv *fake, d *Dir, steps int, check func(calls int)) {
	var all []Dirent
	for off := uint64(0); ; {
		l := fillFrom(t, d, off, 333)
		if len(l) == 0 {
			break
		}
		all = append(all, l...)
		off = all[len(all)-1].Off
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range steps {
		k := r.IntN(len(all))
		before := srv.count("READDIRPLUS")
		got := fillFrom(t, d, all[k].Off, 150)
		check(srv.count("READDIRPLUS") - before)
		for n, e := range got {
			if k+1+n >= len(all) || e != all[k+1+n] {
				t.Fatalf("entry %d behind %d of %d is %+v", n, k, len(all), e)
			}
		}
		if len(got) == 0 && k+1 < len(all) {
			t.Fatalf("nothing behind %d of %d", k, len(all))
		}
	}
}

func TestSeekInKeptPartsNeedsNoCall(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 4000)
	c := newCache(t, srv, testConfig())
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	walkDir(t, srv, d, 1000, func(calls int) {
		if calls != 0 {
			t.Fatalf("%d READDIRPLUS for a seek in what is held", calls)
		}
	})
	if n := srv.count("READDIRPLUS"); n != 41 {
		t.Errorf("%d READDIRPLUS for 4,002 entries in parts of 100", n)
	}
}

func TestSeekBeyondKeptPartsNeedsOneCall(t *testing.T) {
	srv := newFake(t)
	srv.part = 1000
	bigDir(t, srv, maxListed+8000)
	c := newCache(t, srv, testConfig())
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	asked := 0
	walkDir(t, srv, d, 300, func(calls int) {
		asked += calls
		if calls > 1 {
			t.Fatalf("%d READDIRPLUS for a seek", calls)
		}
		if d.held.entries > maxListed+srv.part+2 {
			t.Fatalf("%d entries held", d.held.entries)
		}
	})
	if asked == 0 {
		t.Error("nothing was asked again")
	}
}

// What was there throughout is listed exactly once, wherever the reader goes
// in between, and rewinding shows what came since.
func TestSeeksWhileTheDirectoryChanges(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 1000)
	c := newCache(t, srv, testConfig())
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	r := rand.New(rand.NewPCG(3, 4))
	seen, gone := map[string]int{}, map[string]bool{}
	var offs []uint64
	for off := uint64(0); ; {
		if r.IntN(2) == 0 && len(offs) > 0 {
			must[[]Dirent](t)(d.Next(ctx, offs[r.IntN(len(offs))]))
		}
		l := fillFrom(t, d, off, 70)
		if len(l) == 0 {
			break
		}
		for _, e := range l {
			seen[e.Name]++
			off = e.Off
			offs = append(offs, off)
		}
		srv.foreign(fmt.Sprintf("new%d", len(offs)), nil)
		srv.mu.Lock()
		dir := srv.nodes["h1"]
		k := r.IntN(1000 - len(gone))
		gone[dir.entries[k].name] = true
		srv.unlink(dir, k)
		srv.mu.Unlock()
	}
	for k := range 1000 {
		name := fmt.Sprintf("file%05d", k)
		if n := seen[name]; n > 1 || n == 0 && !gone[name] {
			t.Errorf("%s listed %d times", name, n)
		}
	}
	again := map[string]bool{}
	for off := uint64(0); ; {
		l := fillFrom(t, d, off, 70)
		if len(l) == 0 {
			break
		}
		for _, e := range l {
			again[e.Name] = true
			off = e.Off
		}
	}
	for name := range gone {
		if again[name] {
			t.Errorf("%s is listed after rewinding", name)
		}
	}
	if !again["new70"] {
		t.Error("new70 is not listed after rewinding")
	}
}

// A server that takes no cookie is an error, not a search without end.
func TestServerRejectsEveryCookie(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 250)
	c := newCache(t, srv, testConfig())
	d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
	defer d.Close()
	srv.badDirs = 1 << 40
	for _, off := range []uint64{100, 202} { // the end of a part, and what is no cookie
		if _, err := d.Next(ctx, off); status(err) != nfsclient.ErrBadCookie {
			t.Errorf("seek to %d: %v", off, err)
		}
	}
}

// What a listing makes known is known until its attributes expire, and asking
// whether it is costs no call.
func TestKnown(t *testing.T) {
	srv := newFake(t)
	bigDir(t, srv, 20)
	clock := time.Unix(1e9, 0)
	cf := testConfig()
	cf.Now = func() time.Time { return clock }
	c := newCache(t, srv, cf)
	listAll(t, c, 1000)
	before := srv.total()
	for _, fresh := range []bool{true, false} {
		e, ok := knownOf(c, "file00007")
		if ok != fresh {
			t.Errorf("known: %v, want %v", ok, fresh)
		}
		if ok {
			c.Forget(e.Inode, 1)
		}
		if _, ok := knownOf(c, "other"); ok {
			t.Error("a name that is not there is known")
		}
		clock = clock.Add(cf.AcDirMax + time.Hour)
	}
	if n := srv.total() - before; n != 0 {
		t.Errorf("%d calls", n)
	}
}

// Open directories together hold no more than their bound, and what is closed
// holds nothing.
func TestListingsAreBounded(t *testing.T) {
	srv := newFake(t)
	srv.part = 2000
	bigDir(t, srv, maxListed)
	c := newCache(t, srv, testConfig())
	var open []*Dir
	for range 2 * maxListedAll / maxListed {
		d := must[*Dir](t)(c.OpenDir(ctx, alice, c.Root()))
		open = append(open, d)
		n := 0
		for off := uint64(0); ; {
			l := must[[]Dirent](t)(d.Next(ctx, off))
			if len(l) == 0 {
				break
			}
			n += len(l)
			off = l[len(l)-1].Off
		}
		if n != maxListed+2 {
			t.Fatalf("%d entries", n)
		}
	}
	if n, most := c.listed.Load(), int64(maxListedAll+len(open)*srv.part); n > most || n < maxListedAll/2 {
		t.Errorf("%d entries are held, at most %d", n, most)
	}
	for _, d := range open {
		d.Close()
	}
	if n := c.listed.Load(); n != 0 {
		t.Errorf("%d entries are held by nobody", n)
	}
}
