package cache

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/testlog"
)

// TestLostDataHasAPath: data that could not be written is reported by the path
// that the file has, or had when its name was last known.
func TestLostDataHasAPath(t *testing.T) {
	for _, c := range []struct {
		name   string
		closed bool // before the name goes
		lose   func(t *testing.T, srv *fake, c *Cache, d *Inode)
		want   string
	}{
		{"named", false, func(*testing.T, *fake, *Cache, *Inode) {}, `"/d/a"`},
		{"changed elsewhere", false, func(t *testing.T, srv *fake, c *Cache, d *Inode) {
			d.mu.Lock()
			d.forgetNames(true)
			d.mu.Unlock()
		}, `"/d/a" (last known name)`},
		{"removed", true, func(t *testing.T, srv *fake, c *Cache, d *Inode) {
			check(t, c.Unlink(ctx, alice, d, "a"))
		}, `"/d/a" (last known name), which has been removed,`},
		{"removed while open", false, func(t *testing.T, srv *fake, c *Cache, d *Inode) {
			check(t, c.Unlink(ctx, alice, d, "a"))
		}, `"/d/a" (removed while open)`},
		{"replaced", true, func(t *testing.T, srv *fake, c *Cache, d *Inode) {
			create(t, c, "b").Release()
			check(t, c.Rename(ctx, alice, c.Root(), "b", d, "a"))
		}, `"/d/a" (last known name)`},
		{"moved", false, func(t *testing.T, srv *fake, c *Cache, d *Inode) {
			check(t, c.Rename(ctx, alice, d, "a", c.Root(), "z"))
		}, `"/z"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r refuse
			srv := newFake(t)
			srv.hook = r.hook
			var mu sync.Mutex
			var said []string
			cfg := testConfig()
			cfg.Log = testlog.To(func(message string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, message)
			})
			cache := newCache(t, srv, cfg)
			d := must[Entry](t)(cache.Mkdir(ctx, alice, cache.Root(), "d", nfsclient.SetAttr{}))
			defer cache.Forget(d.Inode, 1)
			e, f, err := cache.Create(ctx, alice, d.Inode, "a", nfsclient.SetAttr{}, false, rw)
			check(t, err)
			defer cache.Forget(e.Inode, 1)
			write(t, f, []byte("x"), 0)
			if c.closed {
				f.Release()
			}
			c.lose(t, srv, cache, d.Inode)
			r.set("WRITE", nfsclient.ErrNoSpace)
			check(t, e.Inode.sync(ctx))
			if !c.closed {
				f.Release()
			}
			_ = cache.Sync(ctx) // the error is checked by what the log says
			mu.Lock()
			defer mu.Unlock()
			if len(said) != 1 || !strings.Contains(said[0], "data of "+c.want) {
				t.Errorf("logged %q, want %s", said, c.want)
			}
		})
	}
}

// TestSyncNamesWhatItGaveUp: a Sync that gives up says on which file.
func TestSyncNamesWhatItGaveUp(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, []byte("x"), 0)
	gone, cancel := context.WithCancel(ctx)
	release := make(chan struct{})
	srv.hook = func(op string, done bool) error {
		if op == "WRITE" && !done {
			cancel()
			<-release
		}
		return nil
	}
	err := c.Sync(gone)
	close(release)
	if err == nil || !strings.Contains(err.Error(), `flush of "/a"`) {
		t.Errorf("%v", err)
	}
}
