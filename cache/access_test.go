package cache

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

func denyLookup(srv *fake, cr nfsclient.Cred) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.nodes["h1"].denied = map[uint32]nfsclient.AccessMask{cr.UID: nfsclient.AccessLookup}
}

// An answer that a chmod has overtaken says nothing of the rights after it.
func TestRightsOvertakenByChmod(t *testing.T) {
	for _, op := range []string{"LOOKUP", "ACCESS"} {
		t.Run(op, func(t *testing.T) {
			srv := newFake(t)
			srv.foreign("a", nil)
			c := newCache(t, srv, testConfig())
			struck := false
			srv.hook = func(name string, done bool) error {
				if name == op && done && !struck {
					struck = true
					denyLookup(srv, bob)
					mode := uint32(0o700)
					_, _, err := c.SetAttr(ctx, alice, c.Root(), nfsclient.SetAttr{Mode: &mode})
					check(t, err)
				}
				return nil
			}
			if op == "LOOKUP" {
				e, err := c.Lookup(ctx, bob, c.Root(), "a")
				check(t, err)
				c.Forget(e.Inode, 1)
			} else {
				must[nfsclient.AccessMask](t)(c.Access(ctx, bob, c.Root(), nfsclient.AccessLookup))
			}
			if _, err := c.Lookup(ctx, bob, c.Root(), "a"); status(err) != nfsclient.ErrAccess {
				t.Errorf("lookup after the chmod: %v", err)
			}
			if got := must[nfsclient.AccessMask](t)(c.Access(ctx, bob, c.Root(), nfsclient.AccessLookup)); got != 0 {
				t.Errorf("rights after the chmod: %#x", got)
			}
		})
	}
}

// Rights that no change of the file announces are believed for the longest
// attribute timeout at most, however often attributes are seen unchanged.
func TestRightsExpire(t *testing.T) {
	srv, k := newFake(t), newClock()
	srv.foreign("a", nil)
	cfg := testConfig()
	cfg.AcDirMin, cfg.AcDirMax, cfg.Now = 30*time.Second, 60*time.Second, k.now
	c := newCache(t, srv, cfg)
	e, err := c.Lookup(ctx, bob, c.Root(), "a")
	check(t, err)
	c.Forget(e.Inode, 1)
	denyLookup(srv, bob)
	for range 3 {
		if got := must[nfsclient.AccessMask](t)(c.Access(ctx, bob, c.Root(), nfsclient.AccessLookup)); got == 0 {
			t.Error("rights are not believed within the timeout")
		}
		k.advance(20 * time.Second)
		check(t, c.revalidate(ctx, alice, c.Root()))
	}
	if _, err := c.Lookup(ctx, bob, c.Root(), "a"); status(err) != nfsclient.ErrAccess {
		t.Errorf("lookup after the longest timeout: %v", err)
	}
}

// A walk needs no attributes of the file: old ones cost it no call, and are
// passed on as not to be believed.
func TestLookupWithOldAttributes(t *testing.T) {
	srv, k := newFake(t), newClock()
	srv.foreign("a", nil)
	cfg := testConfig()
	cfg.AcRegMin, cfg.Now = 3*time.Second, k.now
	c := newCache(t, srv, cfg)
	e, err := c.Lookup(ctx, bob, c.Root(), "a")
	check(t, err)
	c.Forget(e.Inode, 1)
	k.advance(4 * time.Second)
	before := srv.total()
	e, err = c.Lookup(ctx, bob, c.Root(), "a")
	check(t, err)
	defer c.Forget(e.Inode, 1)
	if n := srv.total() - before; n != 0 || e.AttrTTL != 0 {
		t.Errorf("%d calls; attributes believed for %v", n, e.AttrTTL)
	}
	// A stale handle is another thing: the name may stand for something else.
	e.Inode.failed(fail("GETATTR", nfsclient.ErrStale))
	e, err = c.Lookup(ctx, bob, c.Root(), "a")
	check(t, err)
	c.Forget(e.Inode, 1)
	if n := srv.total() - before; n != 1 {
		t.Errorf("%d calls after the server called the handle stale", n)
	}
}
