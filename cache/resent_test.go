package cache

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// forgetful is a server that crashed before it could answer a call, which then
// comes again: its request cache is gone.
type forgetful struct {
	*fake
	renames int
	again   int  // which RENAME that is, from 1 on
	others  bool // each REMOVE and LINK is
}

func (f *forgetful) Remove(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	if w, err := f.fake.Remove(ctx, cr, dir, name); err != nil || !f.others {
		return w, err
	}
	return f.fake.Remove(ctx, cr, dir, name)
}

func (f *forgetful) Link(ctx context.Context, cr nfsclient.Cred, h, dir nfsclient.Handle, name string) (*nfsclient.Attr, nfsclient.Wcc, error) {
	if a, w, err := f.fake.Link(ctx, cr, h, dir, name); err != nil || !f.others {
		return a, w, err
	}
	return f.fake.Link(ctx, cr, h, dir, name)
}

func (f *forgetful) Rename(ctx context.Context, cr nfsclient.Cred, from nfsclient.Handle, fromName string, to nfsclient.Handle, toName string) (fw, tw nfsclient.Wcc, err error) {
	if f.renames++; f.renames == f.again {
		if fw, tw, err = f.fake.Rename(ctx, cr, from, fromName, to, toName); err != nil {
			return fw, tw, err
		}
	}
	return f.fake.Rename(ctx, cr, from, fromName, to, toName)
}

// TestResentRenameKeepsWhatItMoved: the file that a rename over an open one has
// moved is not replaced by that one when the answer is lost.
func TestResentRenameKeepsWhatItMoved(t *testing.T) {
	srv := &forgetful{fake: newFake(t), again: 2} // the first hides b
	srv.foreign("a", []byte("A"))
	srv.foreign("b", []byte("B"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "b", rw)
	if err := c.Rename(ctx, alice, c.Root(), "a", c.Root(), "b"); err != nil {
		t.Errorf("rename: %v", err)
	}
	if got := srv.content("b"); string(got) != "A" {
		t.Errorf("the server has %q", got)
	}
	if got := read(t, f, 9, 0); string(got) != "B" {
		t.Errorf("the replaced file reads %q", got)
	}
	f.Release()
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 1 || l[0] != "b" {
		t.Errorf("the server has %q", l)
	}
}

// TestRenameThatFailsReplacesNothing: a file that another client has given the
// name in the meantime is not replaced by the open one that had it before.
func TestRenameThatFailsReplacesNothing(t *testing.T) {
	srv := newFake(t)
	srv.foreign("b", []byte("B"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "b", rw)
	renames := 0
	srv.hook = func(op string, done bool) error {
		if op == "RENAME" && done {
			if renames++; renames == 2 {
				srv.foreign("b", []byte("C"))
			}
		}
		return nil
	}
	if err := c.Rename(ctx, alice, c.Root(), "none", c.Root(), "b"); status(err) != nfsclient.ErrNoEnt {
		t.Errorf("rename: %v", err)
	}
	if got := srv.content("b"); string(got) != "C" {
		t.Errorf("the server has %q", got)
	}
	f.Release()
}

// TestResentRename: a rename whose answer was lost has succeeded, and both names
// are what it made of them.
func TestResentRename(t *testing.T) {
	srv := &forgetful{fake: newFake(t), again: 1}
	srv.foreign("a", []byte("A"))
	c := newCache(t, srv, testConfig())
	check(t, c.Rename(ctx, alice, c.Root(), "a", c.Root(), "b"))
	if got := lookup(t, c, "b"); got.Attr.Size != 1 {
		t.Errorf("size %d", got.Attr.Size)
	}
	if _, err := c.Lookup(ctx, alice, c.Root(), "a"); status(err) != nfsclient.ErrNoEnt {
		t.Errorf("the old name: %v", err)
	}
}

// TestResentLinkAndUnlink: link and unlink fail when their answers were lost, as
// with all clients of NFSv3, but the count of links is the server's, and the
// kernel is told.
func TestResentLinkAndUnlink(t *testing.T) {
	srv := &forgetful{fake: newFake(t), others: true}
	srv.foreign("a", []byte("A"))
	cfg := testConfig()
	k := &toldKernel{}
	cfg.Kernel = k
	c := newCache(t, srv, cfg)
	e := lookup(t, c, "a")
	for n, change := range []func() error{
		func() error { _, err := c.Link(ctx, alice, e.Inode, c.Root(), "b"); return err },
		func() error { return c.Unlink(ctx, alice, c.Root(), "b") },
	} {
		if s := status(change()); s != nfsclient.ErrExist && s != nfsclient.ErrNoEnt {
			t.Errorf("change %d: %v", n, s)
		}
		if a, _, err := c.GetAttr(ctx, alice, e.Inode); err != nil || int(a.Nlink) != 2-n {
			t.Errorf("change %d: %d links, %v", n, a.Nlink, err)
		}
		if told := k.inodes.Load(); int(told) <= n {
			t.Errorf("change %d: the kernel was told %d times", n, told)
		}
	}
}

// toldKernel counts what it is told of inodes.
type toldKernel struct{ inodes atomic.Int32 }

func (k *toldKernel) InvalidateInode(*Inode)         { k.inodes.Add(1) }
func (k *toldKernel) InvalidateEntry(*Inode, string) {}

// TestLastLinkAfterClose: the name that hid an open file counts no more once it
// is gone.
func TestLastLinkAfterClose(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	srv.foreignLink("a", "b")
	c := newCache(t, srv, testConfig())
	e := lookup(t, c, "a")
	f, _ := open(t, c, "b", rw)
	check(t, c.Unlink(ctx, alice, c.Root(), "b"))
	links := func() uint32 {
		a, _, err := c.GetAttr(ctx, alice, e.Inode)
		check(t, err)
		return a.Nlink
	}
	if n := links(); n != 1 {
		t.Errorf("%d links while open", n)
	}
	f.Release()
	c.removeSillies(ctx)
	if n := links(); n != 1 {
		t.Errorf("%d links after the close", n)
	}
}

// TestResentHiding: a file is removed though the answer to the call that hides
// it is lost, and nothing stays behind.
func TestResentHiding(t *testing.T) {
	srv := &forgetful{fake: newFake(t), again: 1}
	srv.foreign("a", []byte("A"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	if err := c.Unlink(ctx, alice, c.Root(), "a"); err != nil {
		t.Errorf("unlink: %v", err)
	}
	if got := read(t, f, 9, 0); string(got) != "A" {
		t.Errorf("the removed file reads %q", got)
	}
	f.Release()
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 0 {
		t.Errorf("the server has %q", l)
	}
}

// TestResentRenameBack: a hidden file that has its name back counts it,
// though the answer is lost.
func TestResentRenameBack(t *testing.T) {
	srv := &forgetful{fake: newFake(t), again: 3} // hide, rename, unhide
	srv.foreign("b", []byte("B"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "b", rw)
	if err := c.Rename(ctx, alice, c.Root(), "none", c.Root(), "b"); status(err) != nfsclient.ErrNoEnt {
		t.Errorf("rename: %v", err)
	}
	if a, _, err := c.GetAttr(ctx, alice, f.Inode()); err != nil || a.Nlink != 1 {
		t.Errorf("%d links, %v", a.Nlink, err)
	}
	f.Release()
	check(t, c.Close(ctx))
	if l := srv.names(); len(l) != 1 || l[0] != "b" {
		t.Errorf("the server has %q", l)
	}
}

// foreignLink gives a file another name as another client would.
func (f *fake) foreignLink(name, as string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes["h1"]
	h := d.entries[d.find(name)].h
	d.link(as, h)
	f.nodes[h].attr.Nlink++
	f.nodes[h].attr.Ctime = f.now()
	f.touchDir(d)
}

// TestAttributesFromBeforeAnUnlink: an answer that was under way when a name
// went does not bring the old link count back.
func TestAttributesFromBeforeAnUnlink(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	srv.foreignLink("a", "b")
	clk := newClock()
	cfg := testConfig()
	cfg.Now = clk.now
	c := newCache(t, srv, cfg)
	e := lookup(t, c, "a")
	check(t, func() error {
		b, err := c.Lookup(ctx, alice, c.Root(), "b")
		if err == nil {
			c.Forget(b.Inode, 1)
		}
		return err
	}())
	clk.advance(2 * time.Hour)
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	srv.hook = func(op string, done bool) error {
		if op == "GETATTR" && done {
			once.Do(func() { close(asked); <-answer })
		}
		return nil
	}
	var late sync.WaitGroup
	late.Go(func() {
		if _, _, err := c.GetAttr(ctx, alice, e.Inode); err != nil {
			t.Error(err)
		}
	})
	<-asked
	check(t, c.Unlink(ctx, alice, c.Root(), "b"))
	close(answer)
	late.Wait()
	if a, _, err := c.GetAttr(ctx, alice, e.Inode); err != nil || a.Nlink != 1 {
		t.Errorf("%d links, %v", a.Nlink, err)
	}
}

// TestUnlinkOfUncachedName: a file loses a link when a name of it goes that the
// cache did not keep, as when it was looked up while the directory changed.
func TestUnlinkOfUncachedName(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("A"))
	srv.foreignLink("a", "b")
	c := newCache(t, srv, testConfig())
	e := lookup(t, c, "a")
	check(t, c.Unlink(ctx, alice, c.Root(), "b"))
	if a, _, err := c.GetAttr(ctx, alice, e.Inode); err != nil || a.Nlink != 1 {
		t.Errorf("%d links, %v", a.Nlink, err)
	}
}

// TestRmdirAfterClose: a directory whose last file was removed while open can be
// removed as soon as that is closed.
func TestRmdirAfterClose(t *testing.T) {
	for _, how := range []string{"rmdir", "rename"} {
		t.Run(how, func(t *testing.T) {
			srv := newFake(t)
			c := newCache(t, srv, testConfig())
			mkdir := func(name string) *Inode {
				e := must[Entry](t)(c.Mkdir(ctx, alice, c.Root(), name, nfsclient.SetAttr{}))
				t.Cleanup(func() { c.Forget(e.Inode, 1) })
				return e.Inode
			}
			d := mkdir("d")
			mkdir("e")
			e, f, err := c.Create(ctx, alice, d, "a", nfsclient.SetAttr{}, false, rw)
			check(t, err)
			c.Forget(e.Inode, 1)
			check(t, c.Unlink(ctx, alice, d, "a"))
			refused := make(chan struct{})
			var once sync.Once
			srv.hook = func(op string, done bool) error {
				switch {
				case op == "REMOVE" && !done:
					<-refused
				case (op == "RMDIR" || op == "RENAME") && done:
					once.Do(func() { close(refused) })
				}
				return nil
			}
			f.Release()
			if how == "rmdir" {
				err = c.Rmdir(ctx, alice, c.Root(), "d")
			} else {
				err = c.Rename(ctx, alice, c.Root(), "e", c.Root(), "d")
			}
			if err != nil {
				t.Error(err)
			}
			check(t, c.Close(ctx))
			if l := strings.Join(srv.names(), " "); how == "rmdir" && l != "e" || how == "rename" && l != "d" {
				t.Errorf("the server has %q", l)
			}
		})
	}
}

// TestRmdirBeforeClose: the last closes of what was removed while open may come behind the RMDIR of a program that has closed
// the files before. A directory with a file that stays open is not empty.
func TestRmdirBeforeClose(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	d := must[Entry](t)(c.Mkdir(ctx, alice, c.Root(), "d", nfsclient.SetAttr{})).Inode
	t.Cleanup(func() { c.Forget(d, 1) })
	hidden := func(name string) *File {
		e, f, err := c.Create(ctx, alice, d, name, nfsclient.SetAttr{}, false, rw)
		check(t, err)
		c.Forget(e.Inode, 1)
		check(t, c.Unlink(ctx, alice, d, name))
		return f
	}
	stays := hidden("stays")
	c.lateClose = time.Millisecond
	if st, _ := nfsclient.StatusOf(c.Rmdir(ctx, alice, c.Root(), "d")); st != nfsclient.ErrNotEmpty {
		t.Errorf("with an open file: %v", st)
	}
	c.lateClose = time.Minute
	one, other := hidden("one"), hidden("other")
	refused := make(chan struct{})
	var once sync.Once
	srv.hook = func(op string, done bool) error {
		if op == "RMDIR" && done {
			once.Do(func() { close(refused) })
		}
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Rmdir(ctx, alice, c.Root(), "d") }()
	<-refused
	for _, f := range []*File{one, stays, other} {
		f.Release()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	check(t, c.Close(ctx))
	if l := strings.Join(srv.names(), " "); l != "" {
		t.Errorf("the server has %q", l)
	}
}
