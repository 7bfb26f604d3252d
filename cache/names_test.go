package cache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

func status(err error) nfsclient.Status {
	s, _ := nfsclient.StatusOf(err)
	return s
}

func lookup(t testing.TB, c *Cache, name string) Entry {
	t.Helper()
	e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), name))
	c.Forget(e.Inode, 1)
	return e
}

// clock is a settable Config.Now.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(2_000_000_000, 0)} }

func (k *clock) now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.t
}

func (k *clock) advance(d time.Duration) {
	k.mu.Lock()
	k.t = k.t.Add(d)
	k.mu.Unlock()
}

func TestAttributeTimeoutsDoubleWhileUnchanged(t *testing.T) {
	srv, k := newFake(t), newClock()
	srv.foreign("a", []byte("x"))
	cfg := testConfig()
	cfg.AcRegMin, cfg.AcRegMax, cfg.Now = 3*time.Second, 20*time.Second, k.now
	c := newCache(t, srv, cfg)
	i := lookup(t, c, "a").Inode
	i.refs.Add(1)
	defer i.unpin()
	for _, want := range []time.Duration{3, 6, 12, 20, 20} {
		_, ttl, err := c.GetAttr(ctx, alice, i)
		check(t, err)
		if ttl != want*time.Second {
			t.Fatalf("believed for %v, want %v s", ttl, int(want))
		}
		before := srv.total()
		k.advance(ttl - 1)
		if _, _, err := c.GetAttr(ctx, alice, i); err != nil || srv.total() != before {
			t.Fatalf("asked before the timeout: %v", err)
		}
		k.advance(1)
	}
	srv.foreign("a", []byte("yy"))
	a, ttl, err := c.GetAttr(ctx, alice, i)
	if err != nil || a.Size != 2 || ttl != 3*time.Second {
		t.Fatalf("after a change: size %d, believed for %v, %v", a.Size, ttl, err)
	}
}

func TestNoACAlwaysRevalidates(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("x"))
	cfg := testConfig()
	cfg.NoAC = true
	c := newCache(t, srv, cfg)
	for n := range 3 {
		before := srv.total()
		e := lookup(t, c, "a")
		if e.AttrTTL != 0 || e.EntryTTL != 0 || srv.total() != before+1 {
			t.Fatalf("lookup %d: %+v after %d calls", n, e, srv.total()-before)
		}
	}
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	write(t, f, []byte("through"), 0)
	if string(srv.content("a")) != "through" {
		t.Error("a write with noac did not go through")
	}
}

// A reply that was overtaken by a newer one must not bring back the past.
func TestLateAttributesAreDropped(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("x"))
	c := newCache(t, srv, testConfig())
	i := lookup(t, c, "a").Inode
	i.refs.Add(1)
	defer i.unpin()
	old := c.stamp()
	past := i.node.Full(i.typ)
	srv.foreign("a", []byte("newer"))
	check(t, c.revalidate(ctx, alice, i))
	i.mu.Lock()
	i.note(old, &past)
	i.mu.Unlock()
	if a, _, err := c.GetAttr(ctx, alice, i); err != nil || a.Size != 5 {
		t.Fatalf("size %d, %v", a.Size, err)
	}
}

// Two replies that crossed and that no clock can order: ask again.
func TestAmbiguousAttributesAreInvalid(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("x"))
	c := newCache(t, srv, testConfig())
	i := lookup(t, c, "a").Inode
	i.refs.Add(1)
	defer i.unpin()
	st := c.stamp()
	check(t, c.revalidate(ctx, alice, i))
	twin := i.node.Full(i.typ)
	twin.Size = 99
	twin.Change = nfsclient.ChangeByTimes(twin.Size, twin.Mtime, twin.Ctime)
	i.mu.Lock()
	i.note(st, &twin)
	fresh := i.fresh(c.cfg.Now())
	i.mu.Unlock()
	if fresh {
		t.Error("attributes of unknown order are believed")
	}
}

func TestOwnChangesKeepNames(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", nil)
	srv.foreign("b", nil)
	c := newCache(t, srv, testConfig())
	lookup(t, c, "a")
	lookup(t, c, "b")
	_, err := c.Mkdir(ctx, alice, c.Root(), "d", nfsclient.SetAttr{})
	check(t, err)
	e, err := c.Symlink(ctx, alice, c.Root(), "s", "target", nfsclient.SetAttr{})
	check(t, err)
	if s, err := c.Readlink(ctx, alice, e.Inode); err != nil || s != "target" {
		t.Errorf("readlink: %q, %v", s, err)
	}
	check(t, c.Unlink(ctx, alice, c.Root(), "b"))
	before := srv.total()
	lookup(t, c, "a")
	lookup(t, c, "d")
	lookup(t, c, "s")
	if _, err := c.Lookup(ctx, alice, c.Root(), "b"); status(err) != nfsclient.ErrNoEnt {
		t.Errorf("removed name: %v", err)
	}
	if n := srv.total() - before; n != 0 {
		t.Errorf("%d calls for names changed by ourselves", n)
	}
	srv.foreign("c", nil) // unseen so far
	check(t, c.Rmdir(ctx, alice, c.Root(), "d"))
	if _, err := c.Lookup(ctx, alice, c.Root(), "c"); err != nil {
		t.Errorf("a name made elsewhere, after our change showed it: %v", err)
	}
}

func TestForeignDirectoryChangeIsSeenWhenAttributesExpire(t *testing.T) {
	srv, k := newFake(t), newClock()
	cfg := testConfig()
	cfg.AcDirMin, cfg.AcDirMax, cfg.Now = 30*time.Second, 60*time.Second, k.now
	c := newCache(t, srv, cfg)
	if _, err := c.Lookup(ctx, alice, c.Root(), "a"); status(err) != nfsclient.ErrNoEnt {
		t.Fatal(err)
	}
	srv.foreign("a", nil)
	if e, err := c.Lookup(ctx, alice, c.Root(), "a"); status(err) != nfsclient.ErrNoEnt || e.EntryTTL > 30*time.Second {
		t.Fatalf("within the timeout: %v, ttl %v", err, e.EntryTTL)
	}
	k.advance(30 * time.Second)
	lookup(t, c, "a")
}

// A LOOKUP overtaken by a removal must not bring the name back.
func TestLookupRacingUnlink(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", nil)
	c := newCache(t, srv, testConfig())
	var struck atomic.Bool // Unlink may look the name up itself
	srv.hook = func(op string, done bool) error {
		if op == "LOOKUP" && done && struck.CompareAndSwap(false, true) {
			check(t, c.Unlink(ctx, alice, c.Root(), "a"))
		}
		return nil
	}
	e, err := c.Lookup(ctx, alice, c.Root(), "a")
	check(t, err)
	c.Forget(e.Inode, 1)
	if _, err := c.Lookup(ctx, alice, c.Root(), "a"); status(err) != nfsclient.ErrNoEnt {
		t.Errorf("the removed name is back: %v", err)
	}
}

func TestRightsArePerUser(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("secret"))
	srv.nodes["h1"].denied = map[uint32]nfsclient.AccessMask{bob.UID: nfsclient.AccessLookup}
	srv.nodes["h2"].denied = map[uint32]nfsclient.AccessMask{bob.UID: nfsclient.AccessRead | nfsclient.AccessExecute}
	c := newCache(t, srv, testConfig())
	i := lookup(t, c, "a").Inode
	i.refs.Add(1)
	defer i.unpin()
	if _, err := c.Lookup(ctx, bob, c.Root(), "a"); status(err) != nfsclient.ErrAccess {
		t.Errorf("bob's lookup of a cached name: %v", err)
	}
	for range 2 {
		got, err := c.Access(ctx, bob, i, nfsclient.AccessRead|nfsclient.AccessModify)
		if err != nil || got != nfsclient.AccessModify {
			t.Errorf("bob's rights: %#x, %v", got, err)
		}
	}
	if n := srv.count("ACCESS"); n != 1 {
		t.Errorf("%d ACCESS calls", n)
	}
	if _, _, err := c.Open(ctx, bob, i, OpenMode{Read: true}); status(err) != nfsclient.ErrAccess {
		t.Errorf("bob's open: %v", err)
	}
	groups := func(g uint32) nfsclient.Cred { return nfsclient.Cred{UID: 5, GIDs: []uint32{g}} }
	a, b := groups(1), groups(2)
	if c.user(&a) == c.user(&b) {
		t.Error("users with different groups are one")
	}
}

func TestChmodInvalidatesRights(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("x"))
	c := newCache(t, srv, testConfig())
	i := lookup(t, c, "a").Inode
	i.refs.Add(1)
	defer i.unpin()
	must[nfsclient.AccessMask](t)(c.Access(ctx, alice, i, nfsclient.AccessRead))
	srv.nodes["h2"].denied = map[uint32]nfsclient.AccessMask{alice.UID: nfsclient.AccessRead}
	mode := uint32(0o200)
	if _, _, err := c.SetAttr(ctx, alice, i, nfsclient.SetAttr{Mode: &mode}); err != nil {
		t.Fatal(err)
	}
	if got := must[nfsclient.AccessMask](t)(c.Access(ctx, alice, i, nfsclient.AccessRead)); got != 0 {
		t.Errorf("rights after chmod: %#x", got)
	}
}

func TestReferences(t *testing.T) {
	srv := newFake(t)
	for k := range 50 {
		srv.foreign(fmt.Sprint("f", k), nil)
	}
	c := newCache(t, srv, testConfig())
	for k := range 50 {
		lookup(t, c, fmt.Sprint("f", k))
	}
	if n := c.handles.n; n != 51 {
		t.Fatalf("%d inodes known", n)
	}
	c.root.mu.Lock()
	c.root.forgetNames(false)
	c.root.mu.Unlock()
	if n, m, l := c.handles.n, c.numbers.n, c.names.n; n != 1 || m != 1 || l != 0 {
		t.Errorf("%d inodes, %d numbers and %d names left", n, m, l)
	}
}

func TestInodeNumbers(t *testing.T) {
	c := newCache(t, newFake(t), testConfig())
	mk := func(h string, fsid, id uint64) *Inode {
		return c.intern(nfsclient.Handle(h), &nfsclient.Attr{Type: nfsclient.Regular, FSID: fsid, FileID: id})
	}
	all := []*Inode{mk("x", 7, 5), mk("y", 7, 5), mk("z", 8, 5), mk("0", 7, 0), mk("f", 7, ^uint64(0))}
	if all[0].Ino() != 5 {
		t.Errorf("number %d for file id 5 of the root's file system", all[0].Ino())
	}
	seen := map[uint64]bool{0: true, ^uint64(0): true}
	for _, i := range all {
		if seen[i.Ino()] {
			t.Errorf("number %d is taken or reserved", i.Ino())
		}
		seen[i.Ino()] = true
	}
	if again := mk("z", 8, 5); again != all[2] {
		t.Error("two inodes for one handle")
	} else {
		c.Forget(again, 1)
	}
	for _, i := range all {
		c.Forget(i, 1)
	}
}

func TestRenameMovesNames(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	srv.foreign("b", []byte("B"))
	c := newCache(t, srv, testConfig())
	d, err := c.Mkdir(ctx, alice, c.Root(), "d", nfsclient.SetAttr{})
	check(t, err)
	defer c.Forget(d.Inode, 1)
	ino := lookup(t, c, "a").Inode.Ino()
	check(t, c.Rename(ctx, alice, c.Root(), "a", c.Root(), "b"))
	if e := lookup(t, c, "b"); e.Inode.Ino() != ino {
		t.Error("b is not what a was")
	}
	check(t, c.Rename(ctx, alice, c.Root(), "b", d.Inode, "c"))
	for _, name := range []string{"a", "b"} {
		if _, err := c.Lookup(ctx, alice, c.Root(), name); status(err) != nfsclient.ErrNoEnt {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, err := c.Lookup(ctx, alice, d.Inode, "c")
	check(t, err)
	c.Forget(e.Inode, 1)
	if e.Inode.Ino() != ino {
		t.Error("d/c is not what a was")
	}
	if err := c.Rename(ctx, alice, c.Root(), "none", c.Root(), "x"); status(err) != nfsclient.ErrNoEnt {
		t.Errorf("rename of nothing: %v", err)
	}
}

func TestLinkCountsAndContent(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	f.Release()
	e, err := c.Link(ctx, alice, f.i, c.Root(), "b")
	check(t, err)
	c.Forget(e.Inode, 1)
	if e.Attr.Nlink != 2 || e.Inode != f.i {
		t.Errorf("link: %+v", e)
	}
	// A change of names is no change of content.
	f, keep := open(t, c, "b", rw)
	f.Release()
	if !keep {
		t.Error("the kernel's pages are dropped for a link")
	}
	check(t, c.Unlink(ctx, alice, c.Root(), "a"))
	if e := lookup(t, c, "b"); e.Attr.Nlink != 1 {
		t.Errorf("%d links", e.Attr.Nlink)
	}
	if _, err := c.Link(ctx, alice, f.i, c.Root(), "b"); status(err) != nfsclient.ErrExist {
		t.Errorf("link over a name: %v", err)
	}
	if _, err := c.Mknod(ctx, alice, c.Root(), "b", nfsclient.FIFO, nfsclient.Device{}, nfsclient.SetAttr{}); status(err) != nfsclient.ErrExist {
		t.Errorf("mknod over a name: %v", err)
	}
	if _, err := c.OpenDir(ctx, alice, f.i); !errors.As(err, new(*nfsclient.Error)) {
		t.Errorf("opendir of a file: %v", err)
	}
}

// A handle that the server used again for a file of another type, or told us
// the wrong type of, stands for another inode from then on.
func TestHandleOfAnotherType(t *testing.T) {
	srv := newFake(t)
	srv.foreign("f", []byte("data"))
	c := newCache(t, srv, testConfig())
	first := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "f"))
	srv.mu.Lock()
	srv.nodes[first.Inode.Handle()].attr.Type = nfsclient.Directory
	srv.touchDir(srv.nodes["h1"])
	srv.mu.Unlock()
	second := must[Entry](t)(c.lookupServer(ctx, alice, c.Root(), "f"))
	if second.Inode == first.Inode || second.Inode.Type() != nfsclient.Directory || second.Attr.Type != nfsclient.Directory {
		t.Errorf("inode %d of type %v, after %d of type %v", second.Inode.Ino(), second.Inode.Type(), first.Inode.Ino(), first.Inode.Type())
	}
	if second.Inode.Ino() == first.Inode.Ino() {
		t.Error("two inodes have one number")
	}
	c.Forget(first.Inode, 1)
	if again := must[Entry](t)(c.lookupServer(ctx, alice, c.Root(), "f")); again.Inode != second.Inode {
		t.Error("the new inode is forgotten with the old one")
	}
	c.Forget(second.Inode, 2)
}

// TestNamesCached: which lookups ask the server, and for how long the kernel may keep
// their results, with each value of lookupcache=.
func TestNamesCached(t *testing.T) {
	for names, want := range map[Names]struct {
		calls             int // of two lookups of a name that exists and two of one that does not
		existing, missing bool
	}{AllNames: {2, true, true}, ExistingNames: {3, true, false}, NoNames: {4, false, false}} {
		srv := newFake(t)
		srv.foreign("a", []byte("x"))
		cfg := testConfig()
		cfg.Names = names
		c := newCache(t, srv, cfg)
		before := srv.count("LOOKUP")
		for range 2 {
			if e := lookup(t, c, "a"); (e.EntryTTL > 0) != want.existing {
				t.Errorf("%d: the kernel may keep a name for %v", names, e.EntryTTL)
			}
			e, err := c.Lookup(ctx, alice, c.Root(), "none")
			if status(err) != nfsclient.ErrNoEnt || (e.EntryTTL > 0) != want.missing {
				t.Errorf("%d: the kernel may keep that there is no name for %v, %v", names, e.EntryTTL, err)
			}
		}
		if n := srv.count("LOOKUP") - before; n != want.calls {
			t.Errorf("%d: %d lookups, want %d", names, n, want.calls)
		}
	}
}

// TestNoCTO: with nocto an open asks nothing while attributes and rights are fresh, and
// sees what another client has written when they are not; without, it sees it at once.
func TestNoCTO(t *testing.T) {
	for _, nocto := range []bool{false, true} {
		srv, k := newFake(t), newClock()
		srv.foreign("a", []byte("old"))
		cfg := testConfig()
		cfg.NoCTO, cfg.Now, cfg.AcRegMin, cfg.AcRegMax = nocto, k.now, 3*time.Second, 3*time.Second
		c := newCache(t, srv, cfg)
		i := lookup(t, c, "a").Inode
		i.refs.Add(1)
		defer i.unpin()
		open := func() (calls int) {
			before := srv.count("GETATTR") + srv.count("ACCESS")
			f, _, err := c.Open(ctx, alice, i, OpenMode{Read: true})
			check(t, err)
			f.Release()
			return srv.count("GETATTR") + srv.count("ACCESS") - before
		}
		open() // learns the rights
		want := 1
		if nocto {
			want = 0
		}
		if n := open(); n != want {
			t.Errorf("nocto %t: an open made %d calls, want %d", nocto, n, want)
		}
		k.advance(4 * time.Second)
		if n := open(); n == 0 {
			t.Errorf("nocto %t: attributes that have expired were used", nocto)
		}
	}
}
