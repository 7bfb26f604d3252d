package nfsd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

func TestNames(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		d := c.mkdir(c.root, "d")
		c.must("MKDIR", d.Status)
		c.checkWcc("MKDIR", d.Dir, true)
		dir := d.Handle.Handle
		f := c.mustCreate(dir, "f")

		up := c.lookup(dir, "..")
		if up.Status != nfsclient.OK || up.Handle != c.root {
			t.Errorf("LOOKUP ..: %v", up.Status)
		}
		for _, name := range []string{".", ".."} {
			if l := c.lookup(c.root, name); l.Status != nfsclient.OK || l.Handle != c.root {
				t.Errorf("LOOKUP %s of the root: %v", name, l.Status)
			}
		}
		none := c.lookup(dir, "none")
		if none.Status != nfsclient.ErrNoEnt || !none.Dir.Set {
			t.Errorf("LOOKUP of nothing: %v, attributes %v", none.Status, none.Dir.Set)
		}
		c.want("LOOKUP in a file", c.lookup(f, "x").Status, nfsclient.ErrNotDir)
		c.want("LOOKUP of no name", c.lookup(dir, "").Status, nfsclient.ErrInval)
		c.want("LOOKUP of a path", c.lookup(c.root, "d/f").Status, nfsclient.ErrAccess)
		c.want("LOOKUP of a NUL", c.lookup(c.root, "d\x00f").Status, nfsclient.ErrAccess)
		c.want("LOOKUP of a long name", c.lookup(c.root, strings.Repeat("x", 256)).Status, nfsclient.ErrNameTooLong)
		c.want("CREATE with a long name", c.create(c.root, strings.Repeat("x", 256), wire.Guarded, mode(0)).Status, nfsclient.ErrNameTooLong)
		c.want("MKDIR over a name", c.mkdir(c.root, "d").Status, nfsclient.ErrExist)
		c.want("MKDIR .", c.mkdir(c.root, ".").Status, nfsclient.ErrExist)
		c.want("MKDIR in a file", c.mkdir(f, "x").Status, nfsclient.ErrNotDir)

		full := c.rmdir(c.root, "d")
		c.want("RMDIR of a full directory", full.Status, nfsclient.ErrNotEmpty)
		c.checkWcc("RMDIR that failed", full.Wcc, false)
		c.want("RMDIR of a file", c.rmdir(dir, "f").Status, nfsclient.ErrNotDir)
		c.want("RMDIR .", c.rmdir(dir, ".").Status, nfsclient.ErrInval)
		c.want("RMDIR ..", c.rmdir(dir, "..").Status, nfsclient.ErrExist)
		c.want("REMOVE of a directory", c.remove(c.root, "d").Status, nfsclient.ErrIsDir)
		c.want("REMOVE of nothing", c.remove(dir, "none").Status, nfsclient.ErrNoEnt)

		gone := c.remove(dir, "f")
		c.must("REMOVE", gone.Status)
		c.checkWcc("REMOVE", gone.Wcc, true)
		_, st := c.getattr(f)
		c.want("GETATTR of a removed file", st, nfsclient.ErrStale)
		c.want("READ of a removed file", c.read(f, 0, 1).Status, nfsclient.ErrStale)
		c.want("WRITE of a removed file", c.write(f, 0, "x", 0).Status, nfsclient.ErrStale)
		c.must("RMDIR", c.rmdir(c.root, "d").Status)
		c.want("LOOKUP in a removed directory", c.lookup(dir, "x").Status, nfsclient.ErrStale)
		c.want("MKDIR in a removed directory", c.mkdir(dir, "x").Status, nfsclient.ErrStale)
	})
}

func TestRename(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		a, b := c.mustMkdir(c.root, "a"), c.mustMkdir(c.root, "b")
		f, g := c.mustCreate(a, "f"), c.mustCreate(b, "g")
		mv := c.rename(a, "f", b, "g")
		c.must("RENAME over a file", mv.Status)
		c.checkWcc("RENAME from", mv.FromDir, true)
		c.checkWcc("RENAME to", mv.ToDir, true)
		if l := c.lookup(b, "g"); l.Handle != f {
			t.Errorf("the moved file has another handle")
		}
		if _, st := c.getattr(f); st != nfsclient.OK {
			t.Errorf("moved file: %v", st)
		}
		_, st := c.getattr(g)
		c.want("file that was renamed over", st, nfsclient.ErrStale)
		same := c.rename(b, "g", b, "h")
		c.must("RENAME in one directory", same.Status)
		if same.FromDir != same.ToDir {
			t.Error("wcc data of one directory differs")
		}
		c.want("RENAME of nothing", c.rename(a, "none", b, "x").Status, nfsclient.ErrNoEnt)
		c.want("RENAME into itself", c.rename(c.root, "b", b, "x").Status, nfsclient.ErrInval)
		c.want("RENAME of a directory onto a full one", c.rename(c.root, "a", c.root, "b").Status, nfsclient.ErrNotEmpty)
		c.want("RENAME of a directory onto a file", c.rename(c.root, "a", b, "h").Status, nfsclient.ErrNotDir)
		c.want("RENAME of a file onto a directory", c.rename(b, "h", c.root, "a").Status, nfsclient.ErrIsDir)
		c.want("RENAME to ..", c.rename(b, "h", a, "..").Status, nfsclient.ErrInval)
		c.want("RENAME to no name", c.rename(b, "h", a, "").Status, nfsclient.ErrInval)

		// A moved directory takes what is below along.
		deep := c.mustCreate(b, "deep")
		c.must("RENAME of a directory", c.rename(c.root, "b", a, "b2").Status)
		if l := c.lookup(b, "deep"); l.Handle != deep {
			t.Errorf("below a moved directory: %v", l.Status)
		}
	})
}

func TestLinks(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		c := start(t, x)
		f := c.mustCreate(c.root, "f")
		link := func(h nfsclient.Handle, name string) wire.LinkRes {
			var res wire.LinkRes
			c.call(wire.ProcLink, &wire.LinkArgs{Handle: h, Where: c.at(c.root, name)}, &res)
			return res
		}
		l := link(f, "g")
		c.must("LINK", l.Status)
		c.checkWcc("LINK", l.Dir, true)
		if !l.Attr.Set || l.Attr.Attr.Nlink != 2 {
			t.Errorf("LINK: %+v", l.Attr)
		}
		c.want("LINK over a name", link(f, "g").Status, nfsclient.ErrExist)
		c.want("LINK of a directory", link(c.root, "h").Status, nfsclient.ErrPerm)
		c.must("REMOVE of one name", c.remove(c.root, "f").Status)
		if a, st := c.getattr(f); st != nfsclient.OK || a.Nlink != 1 {
			t.Errorf("after one name is gone: %v, %d links", st, a.Nlink)
		}
		c.must("REMOVE of the other", c.remove(c.root, "g").Status)
		c.want("LINK of a removed file", link(f, "h").Status, nfsclient.ErrStale)
	})
}

func TestMknod(t *testing.T) {
	c := start(t, Export{})
	mknod := func(c *client, name string, kind nfsclient.FileType, dev nfsclient.Device) wire.MadeRes {
		var res wire.MadeRes
		c.call(wire.ProcMknod, &wire.MknodArgs{Where: c.at(c.root, name), Type: kind, Attr: mode(0o640), Dev: dev}, &res)
		return res
	}
	for name, kind := range map[string]nfsclient.FileType{"fifo": nfsclient.FIFO, "sock": nfsclient.Socket} {
		res := mknod(c, name, kind, nfsclient.Device{})
		if res.Status != nfsclient.OK || res.Attr.Attr.Type != kind || res.Attr.Attr.Mode != 0o640 {
			t.Errorf("MKNOD %s: %v %+v", name, res.Status, res.Attr)
		}
	}
	for _, kind := range []nfsclient.FileType{nfsclient.Regular, nfsclient.Directory, nfsclient.SymbolicLink} {
		c.want("MKNOD of another kind", mknod(c, "x", kind, nfsclient.Device{}).Status, nfsclient.ErrBadType)
	}
	c.want("MKNOD over a name", mknod(c, "fifo", nfsclient.FIFO, nfsclient.Device{}).Status, nfsclient.ErrExist)
	if os.Geteuid() != 0 {
		c.want("device as an ordinary user", mknod(c, "n", nfsclient.CharDevice, nfsclient.Device{Major: 1, Minor: 3}).Status, nfsclient.ErrPerm)
		return
	}
	dev := nfsclient.Device{Major: 259, Minor: 70000}
	res := mknod(c, "b", nfsclient.BlockDevice, dev)
	if res.Status != nfsclient.OK || res.Attr.Attr.Rdev != dev || res.Attr.Attr.Type != nfsclient.BlockDevice {
		t.Errorf("MKNOD of a device: %v %+v", res.Status, res.Attr)
	}
	c.want("device as another user", mknod(c.as(1000, 1000), "n", nfsclient.CharDevice, dev).Status, nfsclient.ErrPerm)
}

func TestFSCalls(t *testing.T) {
	c := start(t, Export{})
	var fs wire.FSStatRes
	c.call(wire.ProcFSStat, &wire.HandleArgs{Handle: c.root}, &fs)
	if fs.Status != nfsclient.OK || fs.TotalBytes == 0 || fs.AvailBytes > fs.TotalBytes || !fs.Attr.Set {
		t.Errorf("FSSTAT: %+v", fs)
	}
	var info wire.FSInfoRes
	c.call(wire.ProcFSInfo, &wire.HandleArgs{Handle: c.root}, &info)
	if info.Status != nfsclient.OK || info.ReadMax != 1<<20 || info.WriteMax != 1<<20 || info.Properties != 0x1b {
		t.Errorf("FSINFO: %+v", info)
	}
	var pc wire.PathConfRes
	c.call(wire.ProcPathConf, &wire.HandleArgs{Handle: c.root}, &pc)
	if pc.Status != nfsclient.OK || pc.NameMax != 255 || !pc.NoTrunc || pc.CaseInsensitive {
		t.Errorf("PATHCONF: %+v", pc)
	}
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("data"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := start(t, Export{Dir: dir, ReadOnly: true})
	f := c.lookup(c.root, "f").Handle
	if r := c.read(f, 0, 10); r.Status != nfsclient.OK || string(r.Data.Data) != "data" {
		t.Errorf("READ: %v", r.Status)
	}
	c.want("WRITE", c.write(f, 0, "x", 0).Status, nfsclient.ErrReadOnly)
	c.want("SETATTR", c.setattr(f, mode(0)).Status, nfsclient.ErrReadOnly)
	c.want("CREATE", c.create(c.root, "g", wire.Unchecked, mode(0)).Status, nfsclient.ErrReadOnly)
	c.want("MKDIR", c.mkdir(c.root, "g").Status, nfsclient.ErrReadOnly)
	c.want("REMOVE", c.remove(c.root, "f").Status, nfsclient.ErrReadOnly)
	c.want("RENAME", c.rename(c.root, "f", c.root, "g").Status, nfsclient.ErrReadOnly)
	var acc wire.AccessRes
	c.call(wire.ProcAccess, &wire.AccessArgs{Handle: f, Access: 0x3f}, &acc)
	if acc.Access&(nfsclient.AccessModify|nfsclient.AccessExtend) != 0 || acc.Access&nfsclient.AccessRead == 0 {
		t.Errorf("ACCESS: %#x", acc.Access)
	}
}
