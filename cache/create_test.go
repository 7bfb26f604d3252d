package cache

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// planted has another client make name, as plant does, just before a CREATE.
func planted(srv *fake, plant func()) {
	srv.hook = func(op string, done bool) error {
		if op == "CREATE" && !done {
			plant()
		}
		return nil
	}
}

// deny takes rights to name from a user.
func (f *fake) deny(name string, cr nfsclient.Cred, m nfsclient.AccessMask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes["h1"]
	f.nodes[d.entries[d.find(name)].h].denied = map[uint32]nfsclient.AccessMask{cr.UID: m}
}

// TestCreateFindsAnothersFile: a file that another client has made in between is
// opened by who may, and neither opened nor cut by who may not.
func TestCreateFindsAnothersFile(t *testing.T) {
	write, cut := OpenMode{Write: true}, OpenMode{Read: true, Truncate: true}
	for _, c := range []struct {
		name string
		cr   nfsclient.Cred
		mode OpenMode
		want nfsclient.Status
		left string
	}{
		{"writer who may", alice, write, nfsclient.OK, "theirs"},
		{"writer who may not", bob, write, nfsclient.ErrAccess, "theirs"},
		{"reader who may", bob, OpenMode{Read: true}, nfsclient.OK, "theirs"},
		{"cutter who may", alice, cut, nfsclient.OK, ""},
		{"cutter who may not", bob, cut, nfsclient.ErrAccess, "theirs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newFake(t)
			planted(srv, func() {
				srv.foreign("a", []byte("theirs"))
				srv.deny("a", bob, nfsclient.AccessModify)
			})
			ca := newCache(t, srv, testConfig())
			if _, err := ca.Lookup(ctx, c.cr, ca.Root(), "a"); status(err) != nfsclient.ErrNoEnt {
				t.Fatal(err)
			}
			e, f, err := ca.Create(ctx, c.cr, ca.Root(), "a", nfsclient.SetAttr{}, false, c.mode)
			if status(err) != c.want {
				t.Errorf("%v, want status %d", err, c.want)
			}
			if err == nil {
				if e.Attr.Size != uint64(len(c.left)) {
					t.Errorf("size %d of %d", e.Attr.Size, len(c.left))
				}
				f.Release()
				ca.Forget(e.Inode, 1)
			}
			if got := srv.content("a"); string(got) != c.left {
				t.Errorf("the server has %q, want %q", got, c.left)
			}
			if n := ca.opens.Load(); n != 0 {
				t.Errorf("%d files are open", n)
			}
		})
	}
}

// TestCreateFindsNoFile: what has the name is no file, or is gone again: the
// kernel is to look once more.
func TestCreateFindsNoFile(t *testing.T) {
	for name, found := range map[string]func(srv *fake, op string) error{
		"link": func(srv *fake, op string) error {
			if op == "CREATE" {
				_, _ = srv.Symlink(ctx, alice, "h1", "a", "b", nfsclient.SetAttr{}) // the first time
			}
			return nil
		},
		"gone": func(srv *fake, op string) error {
			if op == "CREATE" {
				return fail(op, nfsclient.ErrExist)
			}
			return nil
		},
	} {
		srv := newFake(t)
		srv.hook = func(op string, done bool) error {
			if done {
				return nil
			}
			return found(srv, op)
		}
		c := newCache(t, srv, testConfig())
		if _, _, err := c.Create(ctx, alice, c.Root(), "a", nfsclient.SetAttr{}, false, rw); status(err) != nfsclient.ErrStale {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := c.Create(ctx, alice, c.Root(), "a", nfsclient.SetAttr{}, true, rw); status(err) != nfsclient.ErrExist {
			t.Errorf("%s, exclusive: %v", name, err)
		}
	}
}

// TestCreateRecognizesItsOwnFile: only where a CREATE that was sent twice could not open
// what it finds is it an exclusive one, which costs a call more.
func TestCreateRecognizesItsOwnFile(t *testing.T) {
	r, w, cut := OpenMode{Read: true}, OpenMode{Write: true}, OpenMode{Read: true, Truncate: true}
	for _, c := range []struct {
		mode uint32
		how  OpenMode
		once int
	}{
		{0o644, rw, 0}, {0o600, rw, 0}, {0o444, r, 0}, {0o200, w, 0},
		{0o444, w, 1}, {0o477, rw, 1}, {0o377, rw, 1}, {0, r, 1}, {0o444, cut, 1},
	} {
		srv := newFake(t)
		ca := newCache(t, srv, testConfig())
		e, f, err := ca.Create(ctx, alice, ca.Root(), "a", nfsclient.SetAttr{Mode: &c.mode}, false, c.how)
		check(t, err)
		f.Release()
		ca.Forget(e.Inode, 1)
		if n := srv.count("CREATE exclusive"); n != c.once {
			t.Errorf("mode %o for %+v: %d exclusive calls, want %d", c.mode, c.how, n, c.once)
		}
	}
}

// TestTruncateNeedsWrite: who may not write cannot cut either, though the file is
// opened for reading and the server would let its owner.
func TestTruncateNeedsWrite(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("content"))
	srv.deny("a", alice, nfsclient.AccessModify)
	c := newCache(t, srv, testConfig())
	e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a"))
	defer c.Forget(e.Inode, 1)
	if _, _, err := c.Open(ctx, alice, e.Inode, OpenMode{Read: true, Truncate: true}); status(err) != nfsclient.ErrAccess {
		t.Errorf("%v", err)
	}
	if got := srv.content("a"); string(got) != "content" {
		t.Errorf("the server has %q", got)
	}
}
