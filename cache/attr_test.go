package cache

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestKernelTimeoutIsZeroDuringChanges: attributes are not given to the
// kernel for keeps while a change of ours is under way, or while the server has
// yet to give times to what was written.
func TestKernelTimeoutIsZeroDuringChanges(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	kept := func(i *Inode) bool {
		_, ttl, err := c.GetSize(ctx, alice, i)
		check(t, err)
		return ttl > 0
	}
	asked := false
	srv.hook = func(op string, done bool) error {
		if op == "MKDIR" && done {
			asked = true
			if kept(c.Root()) {
				t.Error("the directory's attributes are kept during a change")
			}
		}
		return nil
	}
	e := must[Entry](t)(c.Mkdir(ctx, alice, c.Root(), "d", nfsclient.SetAttr{}))
	c.Forget(e.Inode, 1)
	if !asked || !kept(c.Root()) {
		t.Error("the directory's attributes are not kept after it")
	}
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, []byte("data"), 0)
	if kept(f.Inode()) {
		t.Error("the file's attributes are kept before it is written")
	}
	check(t, f.Fsync(ctx))
	if !kept(f.Inode()) {
		t.Error("the file's attributes are not kept after it is written")
	}
}
