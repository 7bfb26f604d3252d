package nfsd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

func TestCreateWriteRead(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		made := c.create(c.root, "f", wire.Guarded, mode(0o640))
		c.must("CREATE", made.Status)
		c.checkWcc("CREATE", made.Dir, true)
		h := made.Handle.Handle
		if a := made.Attr.Attr; !made.Attr.Set || a.Type != nfsclient.Regular || a.Mode != 0o640 || a.Nlink != 1 || a.Size != 0 {
			t.Errorf("new file: %+v", made.Attr)
		}
		w := c.write(h, 3, "hello", nfsclient.FileSync)
		c.must("WRITE", w.Status)
		c.checkWcc("WRITE", w.Wcc, true)
		if w.Count != 5 || w.Committed != nfsclient.FileSync || w.Wcc.After.Attr.Size != 8 || w.Wcc.Before.Size != 0 {
			t.Errorf("WRITE: %+v", w)
		}
		for _, r := range []struct {
			off  uint64
			n    uint32
			want string
			eof  bool
		}{{0, 8, "\x00\x00\x00hello", true}, {0, 100, "\x00\x00\x00hello", true}, {3, 2, "he", false}, {8, 10, "", true}, {1 << 63, 10, "", true}, {0, 0, "", false}} {
			res := c.read(h, r.off, r.n)
			c.must("READ", res.Status)
			if string(res.Data.Data) != r.want || res.EOF != r.eof || int(res.Count) != len(r.want) || !res.Attr.Set {
				t.Errorf("READ %d at %d: %q, count %d, eof %v", r.n, r.off, res.Data.Data, res.Count, res.EOF)
			}
		}
		a, st := c.getattr(h)
		c.must("GETATTR", st)
		onDisk, err := os.ReadFile(filepath.Join(c.s.exports[0].Dir, "f"))
		if err != nil || !bytes.Equal(onDisk, []byte("\x00\x00\x00hello")) || a.Size != 8 {
			t.Errorf("on disk %q, %v; size %d", onDisk, err, a.Size)
		}
		found := c.lookup(c.root, "f")
		if found.Status != nfsclient.OK || found.Handle != h || found.Attr.Attr != a || !found.Dir.Set {
			t.Errorf("LOOKUP: %+v, want %+v", found, a)
		}
	})
}

func TestCreateModes(t *testing.T) {
	c := start(t, Export{})
	c.mustCreate(c.root, "f")
	c.mustMkdir(c.root, "d")
	c.write(c.lookup(c.root, "f").Handle, 0, "data", nfsclient.FileSync)
	c.want("GUARDED", c.create(c.root, "f", wire.Guarded, mode(0o600)).Status, nfsclient.ErrExist)
	res := c.create(c.root, "f", wire.Unchecked, mode(0o600))
	c.must("UNCHECKED", res.Status)
	if a := res.Attr.Attr; a.Size != 4 || a.Mode != 0o644 {
		t.Errorf("UNCHECKED changed the file: %+v", a)
	}
	res = c.create(c.root, "f", wire.Unchecked, size(0))
	c.must("UNCHECKED with size", res.Status)
	if a := res.Attr.Attr; a.Size != 0 {
		t.Errorf("UNCHECKED with size 0: %+v", a)
	}
	c.want("UNCHECKED on a directory", c.create(c.root, "d", wire.Unchecked, mode(0o600)).Status, nfsclient.ErrExist)
	sized := c.create(c.root, "sized", wire.Guarded, size(1000))
	if sized.Status != nfsclient.OK || sized.Attr.Attr.Size != 1000 {
		t.Errorf("created with a size: %v %+v", sized.Status, sized.Attr)
	}
	for _, m := range []uint32{0, 0o777, 0o4755, 0o1666} {
		res := c.create(c.root, fmt.Sprintf("m%o", m), wire.Guarded, mode(m))
		if res.Status != nfsclient.OK || res.Attr.Attr.Mode != m {
			t.Errorf("created with mode %o: %v, %o", m, res.Status, res.Attr.Attr.Mode)
		}
	}
}

func TestExclusive(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		x.Dir = t.TempDir()
		c := start(t, x)
		excl := func(c *client, v string) wire.MadeRes {
			var res wire.MadeRes
			a := wire.CreateArgs{Where: c.at(c.root, "x"), Mode: wire.Exclusive}
			copy(a.Verifier[:], v)
			c.call(wire.ProcCreate, &a, &res)
			return res
		}
		first := excl(c, "\xff\xfe\xfd\xfc5678")
		c.must("EXCLUSIVE", first.Status)
		again := excl(c, "\xff\xfe\xfd\xfc5678")
		if again.Status != nfsclient.OK || again.Handle.Handle != first.Handle.Handle {
			t.Errorf("EXCLUSIVE again: %v", again.Status)
		}
		c.want("another's EXCLUSIVE", excl(c, "abcdefgh").Status, nfsclient.ErrExist)
		// The verifier outlives the server.
		if err := c.s.Close(); err != nil {
			t.Fatal(err)
		}
		c2 := start(t, x)
		if r := excl(c2, "\xff\xfe\xfd\xfc5678"); r.Status != nfsclient.OK || r.Handle.Handle != first.Handle.Handle {
			t.Errorf("EXCLUSIVE after a restart: %v", r.Status)
		}
		c2.must("SETATTR", c2.setattr(first.Handle.Handle, wire.SetAttr{
			Atime: wire.SetTime{How: nfsclient.TimeServer}, Mtime: wire.SetTime{How: nfsclient.TimeServer},
		}).Status)
		c2.want("EXCLUSIVE once the file is in use", excl(c2, "\xff\xfe\xfd\xfc5678").Status, nfsclient.ErrExist)
	})
}

func TestSetattr(t *testing.T) {
	c := start(t, Export{})
	h := c.mustCreate(c.root, "f")
	c.write(h, 0, "0123456789", nfsclient.FileSync)
	res := c.setattr(h, size(4))
	c.must("truncate", res.Status)
	c.checkWcc("truncate", res.Wcc, true)
	if res.Wcc.Before.Size != 10 || res.Wcc.After.Attr.Size != 4 {
		t.Errorf("truncate: %+v", res.Wcc)
	}
	c.must("extend", c.setattr(h, size(1<<20)).Status)
	c.must("mode", c.setattr(h, mode(0o4711)).Status)
	when := wire.Time{Sec: 1234567890, Nsec: 987654321}
	c.must("times", c.setattr(h, wire.SetAttr{Mtime: wire.SetTime{How: nfsclient.TimeClient, T: when}}).Status)
	a, _ := c.getattr(h)
	if a.Size != 1<<20 || a.Mode != 0o4711 || a.Mtime != when || a.Atime == when {
		t.Errorf("attributes: %+v", a)
	}
	c.must("server's time", c.setattr(h, wire.SetAttr{Mtime: wire.SetTime{How: nfsclient.TimeServer}}).Status)
	if b, _ := c.getattr(h); b.Mtime == when {
		t.Error("mtime was not set to the server's time")
	}

	var g wire.WccRes
	a, _ = c.getattr(h)
	args := wire.SetAttrArgs{Handle: h, Attr: mode(0o600), Guarded: true, Guard: wire.Time{Sec: 1}}
	c.call(wire.ProcSetAttr, &args, &g)
	c.want("wrong guard", g.Status, nfsclient.ErrNotSync)
	c.checkWcc("wrong guard", g.Wcc, false)
	args.Guard = a.Ctime
	c.call(wire.ProcSetAttr, &args, &g)
	c.must("right guard", g.Status)

	d := c.mustMkdir(c.root, "d")
	c.want("size of a directory", c.setattr(d, size(0)).Status, nfsclient.ErrIsDir)
	c.want("size beyond every bound", c.setattr(h, size(1<<63)).Status, nfsclient.ErrFBig)
	c.want("bad nanoseconds", c.setattr(h, wire.SetAttr{
		Mtime: wire.SetTime{How: nfsclient.TimeClient, T: wire.Time{Nsec: 1e9}}}).Status, nfsclient.ErrInval)
	c.want("user -1", c.setattr(h, wire.SetAttr{UID: wire.OptUint32{Set: true, V: ^uint32(0)}}).Status, nfsclient.ErrInval)
	c.must("mode of a directory", c.setattr(d, mode(0o700)).Status)
}

func TestDataErrors(t *testing.T) {
	c := start(t, Export{})
	h := c.mustCreate(c.root, "f")
	d := c.mustMkdir(c.root, "d")
	c.want("READ of a directory", c.read(d, 0, 10).Status, nfsclient.ErrIsDir)
	c.want("WRITE of a directory", c.write(d, 0, "x", 0).Status, nfsclient.ErrIsDir)
	c.want("COMMIT of a directory", c.commit(d).Status, nfsclient.ErrIsDir)
	c.want("WRITE past every bound", c.write(h, 1<<63-2, "xxx", 0).Status, nfsclient.ErrFBig)
	var w wire.WriteRes
	c.call(wire.ProcWrite, &wire.WriteArgs{Handle: h, Count: 2, Data: wire.Inline([]byte("abc"))}, &w)
	c.want("WRITE whose count is not its length", w.Status, nfsclient.ErrInval)
	c.must("empty WRITE", c.write(h, 5, "", nfsclient.FileSync).Status)
	if a, _ := c.getattr(h); a.Size != 0 {
		t.Errorf("an empty WRITE made the file %d bytes long", a.Size)
	}
	var fifo wire.MadeRes
	c.call(wire.ProcMknod, &wire.MknodArgs{Where: c.at(c.root, "p"), Type: nfsclient.FIFO, Attr: mode(0o600)}, &fifo)
	c.must("MKNOD", fifo.Status)
	c.want("READ of a FIFO", c.read(fifo.Handle.Handle, 0, 1).Status, nfsclient.ErrInval)
	c.want("WRITE of a FIFO", c.write(fifo.Handle.Handle, 0, "x", 0).Status, nfsclient.ErrInval)
	c.want("truncation of a FIFO", c.setattr(fifo.Handle.Handle, size(0)).Status, nfsclient.ErrInval)
	c.must("mode of a FIFO", c.setattr(fifo.Handle.Handle, mode(0o644)).Status)
	big := c.write(h, 0, strings.Repeat("x", 1<<20+4096), nfsclient.Unstable)
	if big.Status != nfsclient.OK || big.Count != 1<<20 {
		t.Errorf("WRITE beyond wtmax: %v, %d bytes", big.Status, big.Count)
	}
	if r := c.read(h, 0, 1<<31); r.Status != nfsclient.OK || r.Count != 1<<20 || !r.EOF {
		t.Errorf("READ beyond rtmax: %v, %d bytes", r.Status, r.Count)
	}
}

func TestSymlinks(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		symlink := func(name, target string) wire.MadeRes {
			var res wire.MadeRes
			c.call(wire.ProcSymlink, &wire.SymlinkArgs{Where: c.at(c.root, name), Target: wire.Inline([]byte(target))}, &res)
			return res
		}
		for name, target := range map[string]string{"short": "x", "long": strings.Repeat("a/", 2047) + "b", "dangling": "/nowhere"} {
			made := symlink(name, target)
			c.must("SYMLINK "+name, made.Status)
			c.checkWcc("SYMLINK", made.Dir, true)
			var res wire.ReadLinkRes
			c.call(wire.ProcReadLink, &wire.HandleArgs{Handle: made.Handle.Handle}, &res)
			if res.Status != nfsclient.OK || string(res.Target.Data) != target || !res.Attr.Set || res.Attr.Attr.Type != nfsclient.SymbolicLink {
				t.Errorf("READLINK %s: %v, %d bytes", name, res.Status, len(res.Target.Data))
			}
			if l := c.lookup(c.root, name); l.Status != nfsclient.OK || l.Handle != made.Handle.Handle {
				t.Errorf("LOOKUP %s: %v", name, l.Status)
			}
		}
		c.want("target of 4096 bytes", symlink("over", strings.Repeat("x", 4096)).Status, nfsclient.ErrNameTooLong)
		c.want("empty target", symlink("empty", "").Status, nfsclient.ErrNoEnt)
		c.want("target with a NUL", symlink("nul", "a\x00b").Status, nfsclient.ErrInval)
		c.want("SYMLINK over a name", symlink("short", "y").Status, nfsclient.ErrExist)
		var res wire.ReadLinkRes
		c.call(wire.ProcReadLink, &wire.HandleArgs{Handle: c.root}, &res)
		c.want("READLINK of a directory", res.Status, nfsclient.ErrInval)
		sl := c.lookup(c.root, "short").Handle
		c.want("READ of a link", c.read(sl, 0, 10).Status, nfsclient.ErrInval)
		c.want("LOOKUP in a link", c.lookup(sl, "x").Status, nfsclient.ErrNotDir)
		c.must("times of a link", c.setattr(sl, wire.SetAttr{Mtime: wire.SetTime{How: nfsclient.TimeClient, T: wire.Time{Sec: 7}}}).Status)
		if a, _ := c.getattr(sl); a.Mtime.Sec != 7 {
			t.Errorf("mtime of a link: %+v", a.Mtime)
		}
		// A link to it is a link, not to its target.
		var ln wire.LinkRes
		c.call(wire.ProcLink, &wire.LinkArgs{Handle: sl, Where: c.at(c.root, "short2")}, &ln)
		if l := c.lookup(c.root, "short2"); ln.Status != nfsclient.OK || l.Handle != sl {
			t.Errorf("LINK of a symbolic link: %v, %v", ln.Status, l.Status)
		}
	})
}
