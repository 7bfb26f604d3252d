package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestCalls: which calls each operation costs, three times each, after a LOOKUP of each
// name as the kernel makes it: in a directory that another client has made, and in an own
// one, where no LOOKUP of a new name is needed.
func TestCalls(t *testing.T) {
	lookUp := func(c *Cache, dir *Inode, name string) {
		if e, err := c.Lookup(ctx, alice, dir, name); err == nil {
			c.Forget(e.Inode, 1)
		}
	}
	// created makes a file, with data if there is to be some.
	created := func(t *testing.T, c *Cache, dir *Inode, name, data string) {
		e, f, err := c.Create(ctx, alice, dir, name, nfsclient.SetAttr{}, true, rw)
		check(t, err)
		if data != "" {
			write(t, f, []byte(data), 0)
		}
		check(t, f.Flush(ctx))
		f.Release()
		c.Forget(e.Inode, 1)
	}
	files := func(t *testing.T, c *Cache, dir *Inode) {
		for k := range 3 {
			created(t, c, dir, fmt.Sprint("f", k), "")
		}
	}
	entry := func(t *testing.T, c *Cache) func(Entry, error) {
		return func(e Entry, err error) {
			check(t, err)
			c.Forget(e.Inode, 1)
		}
	}
	for _, r := range []struct {
		name        string
		before      func(t *testing.T, c *Cache, dir *Inode)
		do          func(t *testing.T, c *Cache, dir *Inode, name string)
		theirs, own string
	}{
		{"create", nil, func(t *testing.T, c *Cache, dir *Inode, name string) {
			lookUp(c, dir, name)
			created(t, c, dir, name, "")
		}, "CREATE 3, LOOKUP 3", "CREATE 3"},
		{"create and write", nil, func(t *testing.T, c *Cache, dir *Inode, name string) {
			lookUp(c, dir, name)
			created(t, c, dir, name, "data")
		}, "CREATE 3, LOOKUP 3, WRITE 3", "CREATE 3, WRITE 3"},
		{"mkdir", nil, func(t *testing.T, c *Cache, dir *Inode, name string) {
			lookUp(c, dir, name)
			entry(t, c)(c.Mkdir(ctx, alice, dir, name, nfsclient.SetAttr{}))
		}, "LOOKUP 3, MKDIR 3", "MKDIR 3"},
		{"symlink", nil, func(t *testing.T, c *Cache, dir *Inode, name string) {
			lookUp(c, dir, name)
			entry(t, c)(c.Symlink(ctx, alice, dir, name, "target", nfsclient.SetAttr{}))
		}, "LOOKUP 3, SYMLINK 3", "SYMLINK 3"},
		{"link", files, func(t *testing.T, c *Cache, dir *Inode, name string) {
			e := must[Entry](t)(c.Lookup(ctx, alice, dir, name))
			defer c.Forget(e.Inode, 1)
			lookUp(c, dir, name+"new")
			entry(t, c)(c.Link(ctx, alice, e.Inode, dir, name+"new"))
		}, "LINK 3, LOOKUP 3", "LINK 3"},
		{"rename", files, func(t *testing.T, c *Cache, dir *Inode, name string) {
			lookUp(c, dir, name+"new")
			check(t, c.Rename(ctx, alice, dir, name, dir, name+"new"))
		}, "LOOKUP 3, RENAME 3", "RENAME 3"},
		{"unlink", files, func(t *testing.T, c *Cache, dir *Inode, name string) {
			lookUp(c, dir, name)
			check(t, c.Unlink(ctx, alice, dir, name))
		}, "REMOVE 3", "REMOVE 3"},
		{"open", files, func(t *testing.T, c *Cache, dir *Inode, name string) {
			for range 2 { // the second time the rights are known
				e := must[Entry](t)(c.Lookup(ctx, alice, dir, name))
				f, _, err := c.Open(ctx, alice, e.Inode, rw)
				check(t, err)
				f.Release()
				c.Forget(e.Inode, 1)
			}
		}, "ACCESS 3, GETATTR 3", "ACCESS 3, GETATTR 3"},
	} {
		for whose, want := range map[string]string{"another's": r.theirs, "own": r.own} {
			t.Run(r.name+", "+whose, func(t *testing.T) {
				srv := newFake(t)
				c := newCache(t, srv, testConfig())
				dir := c.Root()
				if whose == "own" {
					dir = mkdir(t, c, c.Root(), "dir")
				}
				srv.lookups(t, c, dir, "none") // the user may look names up
				if r.before != nil {
					r.before(t, c, dir)
				}
				srv.mu.Lock()
				clear(srv.calls)
				srv.mu.Unlock()
				for k := range 3 {
					r.do(t, c, dir, fmt.Sprint("f", k))
				}
				var got []string
				srv.mu.Lock()
				for op, n := range srv.calls {
					if !strings.Contains(op, " ") { // not what says how a call was made
						got = append(got, fmt.Sprint(op, " ", n))
					}
				}
				srv.mu.Unlock()
				slices.Sort(got)
				if got := strings.Join(got, ", "); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
}
