package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

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

func TestFailedRenameRestoresName(t *testing.T) {
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

// unlinkAtOnce removes a name of an open file in each of two caches, or in one.
// Neither is renamed before both new names were found free.
func unlinkAtOnce(t *testing.T, srv *fake, caches [2]*Cache, names [2]string) {
	t.Helper()
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
	for k, c := range caches {
		go func() { ended <- c.Unlink(ctx, alice, c.Root(), names[k]) }()
	}
	check(t, <-ended)
	check(t, <-ended)
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
	unlinkAtOnce(t, srv, [2]*Cache{c, c}, [2]string{"a", "b"})
	if got := read(t, f, 20, 0); string(got) != "content" {
		t.Errorf("reads %q", got)
	}
	f.Release()
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 0 {
		t.Errorf("after Close the server has %q", l)
	}
}

// TestTwoClientsHideOneFile: two clients that have a file open remove a name of
// it each at the same time, and choose different names to hide it under: else
// the second RENAME would do nothing, and leave its name behind.
func TestTwoClientsHideOneFile(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("content"))
	a, err := srv.Lookup(ctx, alice, "h1", "a")
	check(t, err)
	_, _, err = srv.Link(ctx, alice, a.Handle, "h1", "b")
	check(t, err)
	names := [2]string{"a", "b"}
	var caches [2]*Cache
	var files [2]*File
	for k := range caches {
		caches[k] = newCache(t, srv, testConfig())
		files[k], _ = open(t, caches[k], names[k], rw)
	}
	unlinkAtOnce(t, srv, caches, names)
	l := srv.names()
	if len(l) != 2 || !strings.HasPrefix(l[0], ".nfs") || !strings.HasPrefix(l[1], ".nfs") {
		t.Errorf("the server has %q", l)
	}
	srv.hook = nil
	files[0].Release()
	check(t, caches[0].Close(ctx))
	if got := read(t, files[1], 20, 0); string(got) != "content" {
		t.Errorf("the other client reads %q", got)
	}
	files[1].Release()
	check(t, caches[1].Close(ctx))
	if l := srv.names(); len(l) != 0 {
		t.Errorf("left on the server: %q", l)
	}
}

// TestHiddenNameIsTaken: a name that something has already is left alone.
func TestHiddenNameIsTaken(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	taken := fmt.Sprintf(".nfs%016x%016x%08x", f.i.ino, c.instance, 1)
	srv.foreign(taken, []byte("another's"))
	check(t, c.Unlink(ctx, alice, c.Root(), "a"))
	if got := srv.content(taken); string(got) != "another's" {
		t.Errorf("%s holds %q", taken, got)
	}
	f.Release()
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 1 || l[0] != taken {
		t.Errorf("the server has %q", l)
	}
}

// A file that is closed at the moment at which it is hidden goes all the same.
func TestHidingCrossesClosing(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	for k := range 2000 {
		name := fmt.Sprint("f", k)
		e, f, err := c.Create(ctx, alice, c.Root(), name, nfsclient.SetAttr{}, true, rw)
		check(t, err)
		var both sync.WaitGroup
		both.Go(f.Release)
		both.Go(func() {
			if err := c.Unlink(ctx, alice, c.Root(), name); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		c.Forget(e.Inode, 1)
	}
	const patience = 10 * time.Second // far beyond what is needed
	for start := time.Now(); len(srv.names()) > 0; runtime.Gosched() {
		if time.Since(start) > patience {
			t.Fatalf("left over: %q", srv.names())
		}
	}
}

// TestLinkCountDuringRemoval: a silly name that is being removed, of a file that has another name, is not counted, whether
// the server has removed it yet or not, and whether the attributes are known, or are fetched meanwhile.
func TestLinkCountDuringRemoval(t *testing.T) {
	for _, x := range []struct {
		name    string
		removed bool // by the server, when the attributes are asked for
		fresh   bool
	}{{"before", false, false}, {"after", true, false}, {"known", false, true}} {
		t.Run(x.name, func(t *testing.T) {
			srv := newFake(t)
			srv.foreign("a", []byte("content"))
			c := newCache(t, srv, testConfig())
			f, _ := open(t, c, "a", rw)
			e, err := c.Link(ctx, alice, f.i, c.Root(), "b")
			check(t, err)
			defer c.Forget(e.Inode, 1)
			check(t, c.Unlink(ctx, alice, c.Root(), "a"))
			if a, _, err := c.GetAttr(ctx, alice, e.Inode); err != nil || a.Nlink != 1 {
				t.Fatalf("while it is open: %d links, %v", a.Nlink, err)
			}
			removing, asked, proceed := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			srv.mu.Lock()
			srv.hook = func(op string, done bool) error {
				switch {
				case op == "REMOVE" && done == x.removed:
					close(removing)
					<-proceed
				case op == "GETATTR" && done:
					once.Do(func() { close(asked) })
				}
				return nil
			}
			srv.mu.Unlock()
			f.Release()
			<-removing
			if !x.fresh {
				e.Inode.relink()
			}
			got := make(chan nfsclient.Attr, 1)
			go func() {
				a, _, err := c.GetAttr(ctx, alice, e.Inode)
				if err != nil {
					t.Error(err)
				}
				got <- a
			}()
			<-asked
			close(proceed)
			if a := <-got; a.Nlink != 1 {
				t.Errorf("%d links", a.Nlink)
			}
		})
	}
}
