package cache

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// A stale handle has each directory's name asked for once more, and no file's.
func TestStaleHandleRevalidatesDirectoryNames(t *testing.T) {
	srv := newFake(t)
	srv.foreign("file", nil)
	srv.foreign("gone", nil)
	if _, err := srv.Mkdir(ctx, alice, "h1", "dir", nfsclient.SetAttr{}); err != nil {
		t.Fatal(err)
	}
	c := newCache(t, srv, testConfig())
	gone := lookup(t, c, "gone")
	lookup(t, c, "file")
	old := lookup(t, c, "dir")
	srv.mu.Lock()
	d := srv.nodes["h1"]
	delete(srv.nodes, gone.Inode.h)
	d.entries[d.find("dir")].h = srv.add(nfsclient.Directory, 0o755).h
	srv.mu.Unlock()
	if e := lookup(t, c, "dir"); e.Inode != old.Inode {
		t.Error("the name was not believed before")
	}
	if _, _, err := c.Open(ctx, alice, gone.Inode, OpenMode{Read: true}); status(err) != nfsclient.ErrStale {
		t.Fatalf("open: %v", err)
	}
	for _, s := range []struct {
		name  string
		calls int
	}{{"dir", 1}, {"dir", 0}, {"file", 0}} {
		before := srv.count("LOOKUP")
		e := lookup(t, c, s.name)
		if n := srv.count("LOOKUP") - before; n != s.calls {
			t.Errorf("%s: %d LOOKUPs, want %d", s.name, n, s.calls)
		}
		if s.name == "dir" && e.Inode == old.Inode {
			t.Error("dir is the old directory")
		}
	}
}
