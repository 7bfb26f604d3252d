package cache

import "testing"

// TestUnlockReleasesAndNotifies: unlocking an inode releases the names that were
// dropped under the lock, and queues one notice for all doubts under it.
func TestUnlockReleasesAndNotifies(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", nil)
	c := newCache(t, srv, testConfig())
	i := lookup(t, c, "a").Inode
	c.mu.Lock()
	names, refs := c.names.n, i.refs.Load()
	c.mu.Unlock()
	c.root.mu.Lock()
	c.root.dropName("a")
	if i.refs.Load() != refs {
		t.Error("a name is released under the lock of its directory")
	}
	c.root.mu.Unlock()
	c.mu.Lock()
	if c.names.n != names-1 || i.refs.Load() != refs-1 {
		t.Errorf("%d names and %d references are left of %d and %d", c.names.n, i.refs.Load(), names, refs)
	}
	c.mu.Unlock()
	i.mu.Lock()
	i.doubt()
	i.doubt()
	if a := i.mu.after; a == nil || a.doubted != i || a.next != nil {
		t.Error("two doubts under one lock are not one notice")
	}
	i.mu.Unlock()
	if i.mu.after != nil || i.refs.Load() != refs-1 {
		t.Error("the lock keeps what it has done")
	}
}
