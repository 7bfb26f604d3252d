package cache

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// names is what the root on the server holds.
func (f *fake) names() (l []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.nodes["h1"].entries {
		l = append(l, e.name)
	}
	return l
}

func TestUnlinkedFileLivesWhileOpen(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("content"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	g, _ := open(t, c, "a", rw)
	check(t, c.Unlink(ctx, alice, c.Root(), "a"))
	if _, err := c.Lookup(ctx, alice, c.Root(), "a"); status(err) != nfsclient.ErrNoEnt {
		t.Fatalf("the name is still there: %v", err)
	}
	l := srv.names()
	if len(l) != 1 || !strings.HasPrefix(l[0], ".nfs") {
		t.Fatalf("the server has %q", l)
	}
	if err := c.Unlink(ctx, alice, c.Root(), l[0]); !errors.Is(err, ErrBusy) {
		t.Errorf("unlink of %s: %v", l[0], err)
	}
	write(t, f, []byte("more"), 7)
	if got := read(t, g, 20, 0); string(got) != "contentmore" {
		t.Errorf("reads %q", got)
	}
	if a, _, err := c.GetAttr(ctx, alice, f.i); err != nil || a.Size != 11 || a.Nlink != 0 {
		t.Errorf("size %d, %d links, %v", a.Size, a.Nlink, err)
	}
	check(t, f.Flush(ctx))
	f.Release()
	if len(srv.names()) != 1 {
		t.Error("removed while still open")
	}
	g.Release()
	check(t, c.Close(ctx)) // joins the removal
	if l := srv.names(); len(l) != 0 {
		t.Errorf("after the last close the server has %q", l)
	}
}

func TestRenameOverOpenFile(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	srv.foreign("b", []byte("B"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "b", rw)
	check(t, c.Rename(ctx, alice, c.Root(), "a", c.Root(), "b"))
	if got := read(t, f, 9, 0); string(got) != "B" {
		t.Errorf("the replaced file reads %q", got)
	}
	g, _ := open(t, c, "b", rw)
	if got := read(t, g, 9, 0); string(got) != "A" {
		t.Errorf("the new file reads %q", got)
	}
	f.Release()
	g.Release()
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 1 || l[0] != "b" {
		t.Errorf("the server has %q", l)
	}
}

func TestFailedRenameGivesTheNameBack(t *testing.T) {
	srv := newFake(t)
	srv.foreign("b", []byte("B"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "b", rw)
	defer f.Release()
	if err := c.Rename(ctx, alice, c.Root(), "none", c.Root(), "b"); status(err) != nfsclient.ErrNoEnt {
		t.Fatalf("rename of nothing: %v", err)
	}
	if l := srv.names(); len(l) != 1 || l[0] != "b" {
		t.Errorf("the server has %q", l)
	}
	if got := read(t, f, 9, 0); string(got) != "B" {
		t.Errorf("the file reads %q", got)
	}
}

func TestCloseRetriesRemoval(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	pool, err := bufpool.New(bufpool.Config{Limit: 1})
	check(t, err)
	c, err := New(srv, pool, testConfig())
	check(t, err)
	f, _ := open(t, c, "a", rw)
	check(t, c.Unlink(ctx, alice, c.Root(), "a"))
	refused := make(chan struct{})
	refuse := true
	srv.mu.Lock()
	srv.hook = func(op string, done bool) error {
		if op == "REMOVE" && refuse {
			refuse = false
			close(refused)
			return fail("REMOVE", nfsclient.ErrIO)
		}
		return nil
	}
	srv.mu.Unlock()
	f.Release()
	<-refused
	c.mu.Lock()
	s := c.sillies[f.i]
	c.mu.Unlock()
	for busy := true; busy; { // until the failed removal has let go
		c.mu.Lock()
		busy = s != nil && s.busy != nil
		c.mu.Unlock()
	}
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 0 {
		t.Errorf("the server has %q", l)
	}
	check(t, pool.Close())
}

// TestCloseAwaitsRemoval: a hidden file that is being removed when the mount
// ends is removed all the same.
func TestCloseAwaitsRemoval(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("content"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	check(t, c.Unlink(ctx, alice, c.Root(), "a"))
	removing, joining := make(chan struct{}), make(chan struct{})
	srv.hook = func(op string, done bool) error {
		if op == "REMOVE" && !done {
			close(removing)
			// Close is past everything but this call, or waits for it.
			select {
			case <-c.life.Done():
				return context.Canceled
			case <-joining:
			}
		}
		return nil
	}
	f.Release()
	<-removing
	closed := make(chan error)
	go func() { closed <- c.Close(ctx) }()
	for waiting := false; !waiting; runtime.Gosched() {
		select {
		case <-c.life.Done():
			waiting = true
		default:
			buf := make([]byte, 1<<16)
			waiting = strings.Contains(string(buf[:runtime.Stack(buf, true)]), "awaitRemoval")
		}
	}
	close(joining)
	check(t, <-closed)
	if l := srv.names(); len(l) != 0 {
		t.Errorf("after Close the server has %q", l)
	}
}

// TestTwoNamesUnlinkedAtOnce: a file that is open loses two names side by side,
// and nothing of it stays.
func TestTwoNamesUnlinkedAtOnce(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("content"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	e, err := c.Link(ctx, alice, f.i, c.Root(), "b")
	check(t, err)
	c.Forget(e.Inode, 1)
	var both sync.WaitGroup
	both.Add(2)
	srv.hook = func(op string, done bool) error {
		if op == "RENAME" && !done {
			both.Done()
			both.Wait()
		}
		return nil
	}
	ended := make(chan error)
	for _, name := range []string{"a", "b"} {
		go func() { ended <- c.Unlink(ctx, alice, c.Root(), name) }()
	}
	check(t, <-ended)
	check(t, <-ended)
	if got := read(t, f, 20, 0); string(got) != "content" {
		t.Errorf("reads %q", got)
	}
	f.Release()
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 0 {
		t.Errorf("after Close the server has %q", l)
	}
}
