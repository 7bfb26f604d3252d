package nfsd

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// restart closes the server and opens another over the same directory.
func (c *client) restart(x Export) *client {
	c.t.Helper()
	x.Dir = c.s.exports[0].Dir
	if err := c.s.Close(); err != nil {
		c.t.Fatal(err)
	}
	return start(c.t, x)
}

func TestHandlesSurviveRestart(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		if !x.InodeHandles && os.Geteuid() == 0 && !c.s.exports[0].tree.Kernel() {
			t.Log("the file system has no kernel handles; inode handles are tested twice")
		}
		handles := map[string]nfsclient.Handle{}
		dir := c.root
		for _, name := range []string{"a", "b", "c"} {
			dir = c.mustMkdir(dir, name)
			handles[name] = dir
			f := c.mustCreate(dir, "f")
			c.must("WRITE", c.write(f, 0, name, nfsclient.FileSync).Status)
			handles[name+"/f"] = f
		}
		gone := c.mustCreate(dir, "gone")
		c.must("REMOVE", c.remove(dir, "gone").Status)

		c2 := c.restart(x)
		if c2.root != c.root {
			t.Error("the root has another handle")
		}
		for name, h := range handles {
			if _, st := c2.getattr(h); st != nfsclient.OK {
				t.Errorf("%s after a restart: %v", name, st)
			}
		}
		if r := c2.read(handles["c/f"], 0, 10); string(r.Data.Data) != "c" {
			t.Errorf("READ after a restart: %v %q", r.Status, r.Data.Data)
		}
		_, st := c2.getattr(gone)
		c2.want("removed file after a restart", st, nfsclient.ErrStale)

		// Moved while no server ran.
		root := c2.s.exports[0].Dir
		if err := os.Rename(filepath.Join(root, "a/b/c"), filepath.Join(root, "moved")); err != nil {
			t.Fatal(err)
		}
		c3 := c2.restart(x)
		if r := c3.read(handles["c/f"], 0, 10); string(r.Data.Data) != "c" {
			t.Errorf("READ of what was moved meanwhile: %v %q", r.Status, r.Data.Data)
		}
		if l := c3.lookup(handles["c"], ".."); l.Handle != c3.root {
			t.Errorf("LOOKUP .. of what was moved meanwhile: %v", l.Status)
		}
	})
}

func TestInodeIsNotItsPredecessor(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		// File systems like to give a number out again at once.
		old := c.mustCreate(c.root, "f")
		a, _ := c.getattr(old)
		c.must("REMOVE", c.remove(c.root, "f").Status)
		again := c.mustCreate(c.root, "g")
		if b, _ := c.getattr(again); b.FileID != a.FileID {
			t.Skip("the number was not used again")
		}
		if old == again {
			t.Fatal("both files have one handle")
		}
		c2 := c.restart(x)
		_, st := c2.getattr(old)
		c2.want("the first file", st, nfsclient.ErrStale)
		if _, st := c2.getattr(again); st != nfsclient.OK {
			t.Errorf("the second file: %v", st)
		}
	})
}

func TestHostileHandles(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		f := []byte(c.mustCreate(c.root, "f"))
		bad := func(what string, h []byte) {
			t.Helper()
			_, st := c.getattr(nfsclient.Handle(h))
			if st != nfsclient.ErrBadHandle && st != nfsclient.ErrStale {
				t.Errorf("%s: %v", what, st)
			}
		}
		for n := range len(f) {
			bad("truncated", f[:n])
		}
		for i := range f {
			for bit := range 8 {
				h := append([]byte(nil), f...)
				h[i] ^= 1 << bit
				bad("one bit changed", h)
			}
		}
		bad("extended", append(append([]byte(nil), f...), 0))
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			h := make([]byte, rnd.IntN(65))
			for i := range h {
				h[i] = byte(rnd.Uint32())
			}
			if len(h) > 6 {
				copy(h, f[:6])
			}
			bad("random", h)
		}
		// Another export's handles are not this one's.
		other := start(t, Export{InodeHandles: x.InodeHandles})
		bad("foreign", []byte(other.root))
	})
}

// TestEscape tries the ways out of an export that a client has with the help
// of someone on the server, or of symbolic links.
func TestEscape(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		outer := t.TempDir()
		x.Dir = filepath.Join(outer, "export")
		if err := os.MkdirAll(filepath.Join(x.Dir, "d/e"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outer, "secret"), []byte("secret"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..", filepath.Join(x.Dir, "up")); err != nil {
			t.Fatal(err)
		}
		c := start(t, x)
		if l := c.lookup(c.root, ".."); l.Handle != c.root {
			t.Errorf("LOOKUP .. of the root: %v", l.Status)
		}
		up := c.lookup(c.root, "up")
		if up.Attr.Attr.Type != nfsclient.SymbolicLink {
			t.Fatalf("the link was followed: %+v", up)
		}
		c.want("LOOKUP through a link", c.lookup(up.Handle, "secret").Status, nfsclient.ErrNotDir)
		c.want("CREATE over a link", c.create(c.root, "up", wire.Unchecked, size(0)).Status, nfsclient.ErrExist)
		for _, p := range []string{x.Dir + "/..", outer, "/", x.Dir + "/up", x.Dir + "/up/secret", "export", ""} {
			var res wire.MntRes
			c.program(wire.MountProgram, wire.MountVersion, wire.MountMnt, &wire.PathArgs{Path: p}, &res)
			if res.Status == wire.MountOK {
				t.Errorf("MNT %q succeeded", p)
			}
		}
		// A directory moved out has no way up.
		d := c.lookup(c.root, "d").Handle
		e := c.lookup(d, "e").Handle
		if err := os.Rename(filepath.Join(x.Dir, "d"), filepath.Join(outer, "d")); err != nil {
			t.Fatal(err)
		}
		c.want("LOOKUP .. of what was moved out", c.lookup(d, "..").Status, nfsclient.ErrStale)
		c.want("LOOKUP .. below", c.lookup(e, "..").Status, nfsclient.ErrStale)
		for _, ent := range c.list(d, true, 4096, nil) {
			if ent.Name == ".." && (ent.Handle.Set || ent.Attr.Set) {
				t.Error("READDIRPLUS leads out of the export")
			}
		}
		if !x.InodeHandles {
			return
		}
		// Once it is out of the cache an inode handle does not find it.
		c2 := c.restart(x)
		_, st := c2.getattr(e)
		c2.want("handle of what was moved out", st, nfsclient.ErrStale)
	})
}

func TestManyOpenFiles(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		x.Async = true
		c := start(t, x, func(cfg *Config) { cfg.MaxOpen = 64 })
		var all []nfsclient.Handle
		for i := range 500 {
			h := c.mustCreate(c.root, "f"+string(rune('a'+i%26))+string(rune('a'+i/26)))
			c.must("WRITE", c.write(h, 0, "x", nfsclient.Unstable).Status)
			all = append(all, h)
		}
		for _, h := range all {
			if r := c.read(h, 0, 1); r.Status != nfsclient.OK || r.Count != 1 {
				t.Fatalf("READ: %v", r.Status)
			}
			c.must("COMMIT", c.commit(h).Status)
		}
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil || len(fds) > 64*3+50 {
			t.Errorf("%d descriptors open, %v", len(fds), err)
		}
	})
}
