package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// since are the calls that f makes, by name.
func (f *fake) since(do func()) string {
	f.mu.Lock()
	clear(f.calls)
	f.mu.Unlock()
	do()
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for op, n := range f.calls {
		if !strings.Contains(op, " ") { // not what says how a call was made
			all = append(all, fmt.Sprint(op, " ", n))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestOpenCalls: what an opening brings is not asked for once more, the first time or
// later; what it does not bring is.
func TestOpenCalls(t *testing.T) {
	plain := func(*Config) {}
	noac := func(cfg *Config) { cfg.NoAC = true }
	nocto := func(cfg *Config) { cfg.NoCTO = true }
	for _, c := range []struct {
		name             string
		conf             func(*Config)
		noAttr, noRights bool
		first, again     string
	}{
		{"all is told", plain, false, false, "OPEN 1", "OPEN 1"},
		{"all is told, noac", noac, false, false, "OPEN 1", "OPEN 1"},
		{"all is told, nocto", nocto, false, false, "OPEN 1", "OPEN 1"},
		{"no attributes", plain, true, false, "GETATTR 1, OPEN 1", "GETATTR 1, OPEN 1"},
		{"no attributes, nocto", nocto, true, false, "OPEN 1", "OPEN 1"},
		{"no rights", plain, false, true, "ACCESS 1, OPEN 1", "OPEN 1"},
		{"no rights, noac", noac, false, true, "ACCESS 1, OPEN 1", "ACCESS 1, OPEN 1"},
		{"neither", plain, true, true, "ACCESS 1, OPEN 1", "GETATTR 1, OPEN 1"},
		{"neither, nocto", nocto, true, true, "ACCESS 1, OPEN 1", "OPEN 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newStateful(t)
			srv.noAttr, srv.noRights = c.noAttr, c.noRights
			srv.foreign("a", []byte("content"))
			cfg := testConfig()
			c.conf(&cfg)
			ca := newCache(t, srv, cfg)
			e := must[Entry](t)(ca.Lookup(ctx, alice, ca.Root(), "a"))
			defer ca.Forget(e.Inode, 1)
			for _, want := range []string{c.first, c.again} {
				got := srv.since(func() {
					f, _, err := ca.Open(ctx, alice, e.Inode, rw)
					check(t, err)
					f.Release()
				})
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}

// TestOpenRights: a server opens for more than the user may do. Each user is held to what
// the server has granted him; nothing stays open for one that is refused.
func TestOpenRights(t *testing.T) {
	const all = nfsclient.FileRights
	modes := []struct {
		name string
		mode OpenMode
		need nfsclient.AccessMask
	}{
		{"read", OpenMode{Read: true}, nfsclient.AccessRead},
		{"write", OpenMode{Write: true}, nfsclient.AccessModify},
		{"both", rw, nfsclient.AccessRead | nfsclient.AccessModify},
		{"execute", OpenMode{Read: true, Execute: true}, nfsclient.AccessExecute},
		{"truncate", OpenMode{Write: true, Truncate: true}, nfsclient.AccessModify},
	}
	for _, denied := range []nfsclient.AccessMask{0, nfsclient.AccessRead, nfsclient.AccessModify, nfsclient.AccessExecute, all} {
		for _, how := range modes {
			t.Run(fmt.Sprintf("%s without %#x", how.name, denied), func(t *testing.T) {
				srv := newStateful(t)
				srv.foreign("a", []byte("content"))
				srv.deny("a", bob, denied)
				c := newCache(t, srv, testConfig())
				e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a"))
				defer c.Forget(e.Inode, 1)
				for _, who := range []nfsclient.Cred{alice, bob, bob} {
					refused := who.UID == bob.UID && denied&how.need != 0
					f, _, err := c.Open(ctx, who, e.Inode, how.mode)
					switch {
					case refused && status(err) != nfsclient.ErrAccess, !refused && err != nil:
						t.Fatalf("user %d: %v", who.UID, err)
					case err == nil:
						f.Release()
					}
					<-srv.closed
				}
				// What came with the openings answers for access(2).
				got := srv.since(func() {
					for _, who := range []nfsclient.Cred{alice, bob} {
						want := all
						if who.UID == bob.UID {
							want &^= denied
						}
						if got := must[nfsclient.AccessMask](t)(c.Access(ctx, who, e.Inode, all)); got != want {
							t.Errorf("user %d has the rights %#x, want %#x", who.UID, got, want)
						}
					}
				})
				if got != "" && !how.mode.Truncate { // which changes the file
					t.Errorf("rights cost %s", got)
				}
			})
		}
	}
}

// TestOpenRefusedTruncatesNothing: also where the server opens the file, and would cut it.
func TestOpenRefusedTruncatesNothing(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl nfsclient.Client, srv *fake) {
		srv.foreign("a", []byte("content"))
		srv.deny("a", bob, nfsclient.AccessModify)
		c := newCache(t, cl, testConfig())
		e := lookup(t, c, "a")
		for _, mode := range []OpenMode{{Read: true, Truncate: true}, {Write: true, Truncate: true}} {
			if _, _, err := c.Open(ctx, bob, e.Inode, mode); status(err) != nfsclient.ErrAccess {
				t.Errorf("%+v: %v", mode, err)
			}
		}
		if got := srv.content("a"); string(got) != "content" || srv.count("SETATTR") != 0 {
			t.Errorf("the server has %q", got)
		}
	})
}

// TestOpenSeesOtherRights: rights that another client's chmod has changed are not believed
// once an opening has shown the change, though they are another user's.
func TestOpenSeesOtherRights(t *testing.T) {
	srv := newStateful(t)
	srv.foreign("a", nil)
	c := newCache(t, srv, testConfig())
	e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a"))
	defer c.Forget(e.Inode, 1)
	read := OpenMode{Read: true}
	f, _, err := c.Open(ctx, bob, e.Inode, read)
	check(t, err)
	f.Release()
	srv.deny("a", bob, nfsclient.AccessRead)
	chmod(srv.fake, e.Inode.h, 0o600)
	f, _, err = c.Open(ctx, alice, e.Inode, read)
	check(t, err)
	f.Release()
	if got := must[nfsclient.AccessMask](t)(c.Access(ctx, bob, e.Inode, nfsclient.AccessRead)); got != 0 {
		t.Errorf("bob has the rights %#x", got)
	}
	if _, _, err := c.Open(ctx, bob, e.Inode, read); status(err) != nfsclient.ErrAccess {
		t.Errorf("bob opens it: %v", err)
	}
}

// chmod is another client's.
func chmod(f *fake, h nfsclient.Handle, mode uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[h]
	n.attr.Mode, n.attr.Ctime = mode, f.now()
}

// TestLateReplyToOpen: an answer to OPEN that comes after others, as from the server's
// memory when the call was sent twice, neither brings back what it is of, nor rights that
// were taken away meanwhile.
func TestLateReplyToOpen(t *testing.T) {
	for _, ours := range []bool{false, true} {
		t.Run(fmt.Sprintf("ours=%v", ours), func(t *testing.T) {
			srv := newStateful(t)
			srv.foreign("a", []byte("old"))
			c := newCache(t, srv, testConfig())
			e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a"))
			defer c.Forget(e.Inode, 1)
			late := false
			srv.hook = func(op string, done bool) error {
				if op != "OPEN" || !done || late {
					return nil
				}
				late = true
				srv.deny("a", bob, nfsclient.FileRights)
				if ours {
					mode := uint32(0o600)
					_, _, err := c.SetAttr(ctx, alice, e.Inode, nfsclient.SetAttr{Mode: &mode})
					return err
				}
				srv.foreign("a", []byte("new content"))
				chmod(srv.fake, e.Inode.h, 0o600)
				return c.revalidate(ctx, alice, e.Inode)
			}
			f, _, err := c.Open(ctx, bob, e.Inode, OpenMode{Read: true})
			check(t, err) // he could still open it when the server did
			defer f.Release()
			if !late {
				t.Fatal("the reply was not late")
			}
			a, _, err := c.GetAttr(ctx, alice, e.Inode)
			check(t, err)
			size := uint64(len("old"))
			if !ours {
				size = uint64(len("new content"))
			}
			if a.Mode != 0o600 || a.Size != size {
				t.Errorf("mode %o, %d bytes", a.Mode, a.Size)
			}
			if got := must[nfsclient.AccessMask](t)(c.Access(ctx, bob, e.Inode, nfsclient.FileRights)); got != 0 {
				t.Errorf("bob has the rights %#x", got)
			}
		})
	}
}

// TestOpenAttributesExpire: those that came with the opening are fresh as long as others, from
// when the call was sent.
func TestOpenAttributesExpire(t *testing.T) {
	srv, k := newStateful(t), newClock()
	srv.foreign("a", nil)
	cfg := testConfig()
	cfg.AcRegMin, cfg.AcRegMax, cfg.Now = 3*time.Second, 3*time.Second, k.now
	c := newCache(t, srv, cfg)
	e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a"))
	defer c.Forget(e.Inode, 1)
	k.advance(time.Minute)
	srv.hook = func(op string, done bool) error {
		if op == "OPEN" && done {
			k.advance(2 * time.Second) // on the way back
		}
		return nil
	}
	f, _, err := c.Open(ctx, alice, e.Inode, rw)
	check(t, err)
	defer f.Release()
	for _, want := range []string{"", "GETATTR 1"} {
		got := srv.since(func() {
			_, _, err := c.GetAttr(ctx, alice, e.Inode)
			check(t, err)
		})
		if got != want {
			t.Errorf("attributes cost %q, want %q", got, want)
		}
		k.advance(2 * time.Second)
	}
}
