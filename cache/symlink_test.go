package cache

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestLinkWithUsedHandle: the kernel keeps the target of a symbolic link. It drops
// that when the link has been replaced by one with the same handle.
func TestLinkWithUsedHandle(t *testing.T) {
	srv, k := newFake(t), newKernel()
	cfg := testConfig()
	cfg.Kernel = k
	c := newCache(t, srv, cfg)
	e, err := c.Symlink(ctx, alice, c.Root(), "link", "old", nfsclient.SetAttr{})
	check(t, err)
	check(t, c.Rename(ctx, alice, c.Root(), "link", c.Root(), "moved"))
	_, _, err = c.GetAttr(ctx, alice, e.Inode)
	check(t, err)
	if n := len(k.inodes); n > 0 {
		t.Errorf("the kernel was told %d times of our own changes", n)
	}
	srv.mu.Lock()
	n := srv.nodes[e.Inode.Handle()]
	n.attr.Mtime = srv.now()
	n.attr.Ctime = n.attr.Mtime
	srv.mu.Unlock()
	check(t, c.revalidate(ctx, alice, e.Inode))
	if ino := <-k.inodes; ino != e.Inode.Ino() {
		t.Errorf("the kernel was told of inode %d, want %d", ino, e.Inode.Ino())
	}
}
