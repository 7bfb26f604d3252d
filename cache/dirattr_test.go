package cache

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestChangeAfterListing: a listing may reach the kernel after a change in one of the
// directories in it. The first change after the listing makes the kernel ignore those
// attributes, before it is answered.
func TestChangeAfterListing(t *testing.T) {
	srv, k := newFake(t), newKernel()
	cfg := testConfig()
	cfg.Kernel = k
	c := newCache(t, srv, cfg)
	e, err := c.Mkdir(ctx, alice, c.Root(), "dir", nfsclient.SetAttr{})
	check(t, err)
	_, err = c.Access(ctx, alice, c.Root(), nfsclient.AccessLookup)
	check(t, err)
	told := func(what string, want int) {
		t.Helper()
		n := 0
		for ; len(k.inodes) > 0; n++ {
			if ino := <-k.inodes; ino != e.Inode.Ino() {
				t.Errorf("%s: the kernel was told of inode %d", what, ino)
			}
		}
		if n != want {
			t.Errorf("%s: the kernel was told %d times, want %d", what, n, want)
		}
	}
	mkdir := func(name string) {
		t.Helper()
		_, err := c.Mkdir(ctx, alice, e.Inode, name, nfsclient.SetAttr{})
		check(t, err)
	}
	mkdir("a")
	told("without a listing", 0)
	for range 2 {
		found, ok := knownOf(c, "dir")
		if !ok || found.AttrTTL == 0 {
			t.Fatalf("known %v, attributes for %v", ok, found.AttrTTL)
		}
		told("listed", 0)
		check(t, c.Rmdir(ctx, alice, e.Inode, "a"))
		told("the first change", 1)
		mkdir("a")
		told("the next one", 0)
	}
	// While a change is under way, no attributes are given that could be kept.
	srv.hook = func(op string, done bool) error {
		if op == "MKDIR" && !done {
			if found, ok := knownOf(c, "dir"); ok && found.AttrTTL != 0 {
				t.Errorf("during a change attributes are given for %v", found.AttrTTL)
			}
		}
		return nil
	}
	mkdir("b")
	told("a change that the listing came in between", 1)
}
