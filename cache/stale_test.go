package cache

import (
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/testlog"
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

// TestStaleIsLogged: the log says once of an open file, by its path, and of the root, that the
// server does not know it any more, and nothing of files that the next path walk finds anew.
func TestStaleIsLogged(t *testing.T) {
	srv := newFake(t)
	srv.foreign("open", nil)
	srv.foreign("shut", nil)
	var logged []string
	cfg := testConfig()
	cfg.Log = testlog.To(func(message string) { logged = append(logged, message) })
	c := newCache(t, srv, cfg)
	open, shut := lookup(t, c, "open"), lookup(t, c, "shut")
	f, _, err := c.Open(ctx, alice, open.Inode, OpenMode{Read: true})
	check(t, err)
	defer f.Release()
	srv.mu.Lock()
	delete(srv.nodes, open.Inode.h)
	delete(srv.nodes, shut.Inode.h)
	srv.mu.Unlock()
	for range 2 {
		for _, i := range []*Inode{open.Inode, shut.Inode} {
			if err := c.revalidate(ctx, alice, i); status(err) != nfsclient.ErrStale {
				t.Errorf("%v: %v", i.h, err)
			}
		}
	}
	if len(logged) != 1 || !strings.HasPrefix(logged[0], `"/open" is open here`) {
		t.Errorf("logged %q", logged)
	}
	logged = nil
	srv.mu.Lock()
	root := srv.nodes["h1"]
	delete(srv.nodes, "h1")
	srv.mu.Unlock()
	for range 2 {
		if err := c.revalidate(ctx, alice, c.Root()); status(err) != nfsclient.ErrStale {
			t.Errorf("root: %v", err)
		}
	}
	srv.mu.Lock()
	srv.nodes["h1"] = root
	srv.mu.Unlock()
	if len(logged) != 1 || !strings.Contains(logged[0], "export's root") {
		t.Errorf("logged %q", logged)
	}
}
