package cache

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// What goes beyond the server's largest file is refused when it is written, and
// not found out by fsync.
func TestLargestFile(t *testing.T) {
	for _, mode := range []OpenMode{{Write: true}, {Write: true, Direct: true}, {Write: true, Sync: true}} {
		srv := newFake(t)
		srv.maxSize = 10_000
		c := newCache(t, srv, testConfig())
		e, f, err := c.Create(ctx, alice, c.Root(), "f", nfsclient.SetAttr{}, false, mode)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Forget(e.Inode, 1)
		defer f.Release()
		for _, w := range []struct {
			off   int64
			n     int
			wrote int
			st    nfsclient.Status
		}{
			{9_000, 500, 500, nfsclient.OK},
			{9_500, 1_000, 500, nfsclient.OK},
			{9_999, 2, 1, nfsclient.OK},
			{10_000, 1, 0, nfsclient.ErrFBig},
			{10_000, 0, 0, nfsclient.OK},
			{20_000, 0, 0, nfsclient.OK},
			{maxOffset, 1, 0, nfsclient.ErrFBig},
		} {
			if n, err := f.Write(ctx, make([]byte, w.n), w.off); n != w.wrote || status(err) != w.st {
				t.Errorf("%+v: %d bytes at %d: %d, %v", mode, w.n, w.off, n, err)
			}
		}
		for size, want := range map[uint64]nfsclient.Status{10_000: nfsclient.OK, 10_001: nfsclient.ErrFBig, 1 << 63: nfsclient.ErrFBig} {
			if _, _, err := c.SetAttr(ctx, alice, e.Inode, nfsclient.SetAttr{Size: &size}); status(err) != want {
				t.Errorf("truncate to %d: %v", size, err)
			}
		}
		if err := f.Fsync(ctx); err != nil {
			t.Errorf("fsync: %v", err)
		}
		if n := len(srv.content("f")); n != 10_000 {
			t.Errorf("%d bytes on the server", n)
		}
	}
}
