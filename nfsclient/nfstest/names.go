package nfstest

import (
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// made asserts that a result of making a file is complete and that the name
// leads to it.
func (e *env) made(m nfsclient.Made, err error, name string, kind nfsclient.FileType) {
	e.Helper()
	e.check(err)
	f, err := e.c.Lookup(e.ctx, e.cr, e.dir, name)
	e.check(err)
	if f.Handle != m.Handle || m.Attr.Type != kind || m.Attr.FileID == 0 || m.Attr != e.attr(m.Handle) {
		e.Errorf("%s: %+v, looked up %x", name, m, f.Handle)
	}
}

func testCreate(e *env) {
	m, err := e.c.Create(e.ctx, e.cr, e.dir, "file", nfsclient.SetAttr{Mode: ptr(uint32(0o640))}, false, 0)
	e.made(m, err, "file", nfsclient.Regular)
	if m.Attr.Mode != 0o640 || m.Attr.Size != 0 {
		e.Errorf("%+v", m.Attr)
	}
	e.write(m.Handle, 0, []byte("data"), nfsclient.FileSync)
	_, err = e.c.Create(e.ctx, e.cr, e.dir, "file", nfsclient.SetAttr{Mode: ptr(uint32(0o666)), Size: ptr(uint64(0))}, false, 0)
	e.status("second CREATE", err, nfsclient.ErrExist)
	if a := e.attr(m.Handle); a.Mode != 0o640 || a.Size != 4 {
		e.Errorf("the second CREATE left %+v", a)
	}
	e.mkdir("dir")
	_, err = e.c.Create(e.ctx, e.cr, e.dir, "dir", nfsclient.SetAttr{}, false, 0)
	e.status("CREATE over a directory", err, nfsclient.ErrIsDir, nfsclient.ErrExist)
	_, err = e.c.Create(e.ctx, e.cr, m.Handle, "x", nfsclient.SetAttr{}, false, 0)
	e.status("CREATE in a file", err, nfsclient.ErrNotDir)
}

func testCreateExclusive(e *env) {
	m, err := e.c.Create(e.ctx, e.cr, e.dir, "file", nfsclient.SetAttr{Mode: ptr(uint32(0o600))}, true, 0)
	e.made(m, err, "file", nfsclient.Regular)
	if m.Attr.Mode != 0o600 {
		e.Errorf("mode %o", m.Attr.Mode)
	}
	// The times must not hold the verifier of the exclusive CREATE any more.
	for _, at := range []time.Time{m.Attr.Atime, m.Attr.Mtime} {
		if d := m.Attr.Ctime.Sub(at); d < -time.Hour || d > time.Hour {
			e.Errorf("times of a new file: %v, %v, %v", m.Attr.Atime, m.Attr.Mtime, m.Attr.Ctime)
		}
	}
	_, err = e.c.Create(e.ctx, e.cr, e.dir, "file", nfsclient.SetAttr{Mode: ptr(uint32(0o666))}, true, 0)
	e.status("second exclusive CREATE", err, nfsclient.ErrExist)
	if a := e.attr(m.Handle); a.Mode != 0o600 {
		e.Errorf("mode became %o", a.Mode)
	}
	e.mkdir("dir")
	_, err = e.c.Create(e.ctx, e.cr, e.dir, "dir", nfsclient.SetAttr{}, true, 0)
	e.status("exclusive CREATE over a directory", err, nfsclient.ErrExist, nfsclient.ErrIsDir)
}

func testMkdir(e *env) {
	before := e.attr(e.dir)
	m, err := e.c.Mkdir(e.ctx, e.cr, e.dir, "dir", nfsclient.SetAttr{Mode: ptr(uint32(0o750))})
	e.made(m, err, "dir", nfsclient.Directory)
	if m.Attr.Mode&0o777 != 0o750 {
		e.Errorf("mode %o", m.Attr.Mode)
	}
	if m.Dir.Before.Set && m.Dir.Before.ID != before.Change {
		e.Errorf("the directory's state before was %v, the server says %v", before.Change, m.Dir.Before.ID)
	}
	_, err = e.c.Mkdir(e.ctx, e.cr, e.dir, "dir", nfsclient.SetAttr{})
	e.status("second MKDIR", err, nfsclient.ErrExist)
	file, err := e.c.Create(e.ctx, e.cr, m.Handle, "inside", nfsclient.SetAttr{}, false, 0)
	e.check(err)
	_, err = e.c.Rmdir(e.ctx, e.cr, e.dir, "dir")
	// POSIX permits EEXIST here, too.
	e.status("RMDIR of a full directory", err, nfsclient.ErrNotEmpty, nfsclient.ErrExist)
	_, err = e.c.Mkdir(e.ctx, e.cr, file.Handle, "x", nfsclient.SetAttr{})
	e.status("MKDIR in a file", err, nfsclient.ErrNotDir)
	_, err = e.c.Rmdir(e.ctx, e.cr, m.Handle, "inside")
	e.status("RMDIR of a file", err, nfsclient.ErrNotDir)
	_, err = e.c.Remove(e.ctx, e.cr, m.Handle, "inside")
	e.check(err)
	_, err = e.c.Rmdir(e.ctx, e.cr, e.dir, "dir")
	e.check(err)
	_, err = e.c.Rmdir(e.ctx, e.cr, e.dir, "dir")
	e.status("RMDIR of nothing", err, nfsclient.ErrNoEnt)
}

func testRemove(e *env) {
	h := e.create("file")
	wcc, err := e.c.Remove(e.ctx, e.cr, e.dir, "file")
	e.check(err)
	if wcc.After.Set && wcc.After.Type != nfsclient.Directory {
		e.Errorf("%+v", wcc.After)
	}
	_, err = e.c.Lookup(e.ctx, e.cr, e.dir, "file")
	e.status("LOOKUP of what was removed", err, nfsclient.ErrNoEnt)
	_, err = e.c.Remove(e.ctx, e.cr, e.dir, "file")
	e.status("REMOVE of nothing", err, nfsclient.ErrNoEnt)
	e.mkdir("dir")
	_, err = e.c.Remove(e.ctx, e.cr, e.dir, "dir")
	e.status("REMOVE of a directory", err, nfsclient.ErrIsDir, nfsclient.ErrPerm)
	_, err = e.c.Remove(e.ctx, e.cr, h, "x")
	e.status("REMOVE in a file", err, nfsclient.ErrNotDir, nfsclient.ErrStale)
}

func testRename(e *env) {
	a, b := e.create("a"), e.create("b")
	sub := e.mkdir("sub")
	full := e.mkdir("full")
	_, err := e.c.Create(e.ctx, e.cr, full, "x", nfsclient.SetAttr{}, false, 0)
	e.check(err)
	rename := func(from nfsclient.Handle, fn string, to nfsclient.Handle, tn string) error {
		_, _, err := e.c.Rename(e.ctx, e.cr, from, fn, to, tn)
		return err
	}
	is := func(dir nfsclient.Handle, name string, want nfsclient.Handle) {
		e.Helper()
		f, err := e.c.Lookup(e.ctx, e.cr, dir, name)
		if err != nil || e.attr(f.Handle).FileID != e.attr(want).FileID {
			e.Errorf("%s is not what was renamed: %v", name, err)
		}
	}
	e.check(rename(e.dir, "a", e.dir, "c"))
	is(e.dir, "c", a)
	e.status("RENAME of nothing", rename(e.dir, "a", e.dir, "d"), nfsclient.ErrNoEnt)
	e.check(rename(e.dir, "c", sub, "c2"))
	is(sub, "c2", a)
	e.check(rename(e.dir, "b", sub, "c2"))
	is(sub, "c2", b)
	e.status("RENAME of a directory over a full one", rename(e.dir, "sub", e.dir, "full"), nfsclient.ErrNotEmpty, nfsclient.ErrExist)
	e.status("RENAME of a file over a directory", rename(sub, "c2", e.dir, "full"), nfsclient.ErrIsDir, nfsclient.ErrExist, nfsclient.ErrNotEmpty)
	e.status("RENAME of a directory over a file", rename(e.dir, "sub", full, "x"), nfsclient.ErrNotDir, nfsclient.ErrExist)
	e.status("RENAME of a directory into itself", rename(e.dir, "sub", sub, "self"), nfsclient.ErrInval)
	e.mkdir("empty")
	e.check(rename(e.dir, "full", e.dir, "empty"))
	is(e.dir, "empty", full)
	e.check(rename(e.dir, "empty", e.dir, "empty"))
	is(e.dir, "empty", full)
}

func testLink(e *env) {
	h, sub := e.create("file"), e.mkdir("sub")
	a, _, err := e.c.Link(e.ctx, e.cr, h, sub, "hard")
	e.check(err)
	if a != nil && a.Nlink != 2 {
		e.Errorf("%d links", a.Nlink)
	}
	f, err := e.c.Lookup(e.ctx, e.cr, sub, "hard")
	e.check(err)
	if got, want := e.attr(f.Handle), e.attr(h); got.FileID != want.FileID || got.Nlink != 2 {
		e.Errorf("%+v, linked to %+v", got, want)
	}
	e.write(f.Handle, 0, []byte("shared"), nfsclient.FileSync)
	e.wantData(h, 0, []byte("shared"))
	_, _, err = e.c.Link(e.ctx, e.cr, h, sub, "hard")
	e.status("LINK to a name that is there", err, nfsclient.ErrExist)
	_, _, err = e.c.Link(e.ctx, e.cr, sub, e.dir, "dirlink")
	e.status("LINK to a directory", err, nfsclient.ErrPerm, nfsclient.ErrIsDir, nfsclient.ErrInval)
	_, err = e.c.Remove(e.ctx, e.cr, e.dir, "file")
	e.check(err)
	e.wantData(h, 0, []byte("shared"))
	if a := e.attr(h); a.Nlink != 1 {
		e.Errorf("%d links after one was removed", a.Nlink)
	}
}

func testSymlink(e *env) {
	for name, target := range map[string]string{"short": "x", "up": "../no/such", "odd": "12345", "inline": strings.Repeat("i", 700),
		"long": strings.Repeat("t/", 2000), "unicode": "ä/世界"} {
		m, err := e.c.Symlink(e.ctx, e.cr, e.dir, name, target, nfsclient.SetAttr{})
		e.made(m, err, name, nfsclient.SymbolicLink)
		got, attr, err := e.c.Readlink(e.ctx, e.cr, m.Handle)
		if err != nil || got != target || attr != nil && attr.Type != nfsclient.SymbolicLink {
			e.Errorf("%s: target of %d bytes came back with %d, %v, %v", name, len(target), len(got), attr, err)
		}
		if m.Attr.Size != uint64(len(target)) {
			e.Errorf("%s: size %d", name, m.Attr.Size)
		}
	}
	_, err := e.c.Symlink(e.ctx, e.cr, e.dir, "short", "y", nfsclient.SetAttr{})
	e.status("second SYMLINK", err, nfsclient.ErrExist)
}

func testMknod(e *env) {
	for name, kind := range map[string]nfsclient.FileType{"fifo": nfsclient.FIFO, "socket": nfsclient.Socket} {
		m, err := e.c.Mknod(e.ctx, e.cr, e.dir, name, kind, nfsclient.Device{}, nfsclient.SetAttr{Mode: ptr(uint32(0o620))})
		e.made(m, err, name, kind)
		if m.Attr.Mode != 0o620 {
			e.Errorf("%s: mode %o", name, m.Attr.Mode)
		}
		_, err = e.c.Mknod(e.ctx, e.cr, e.dir, name, kind, nfsclient.Device{}, nfsclient.SetAttr{})
		e.status("second MKNOD", err, nfsclient.ErrExist)
	}
}

func testDevices(e *env) {
	if !e.isRoot() {
		e.Skip("needs to be root at the server")
	}
	for name, kind := range map[string]nfsclient.FileType{"char": nfsclient.CharDevice, "block": nfsclient.BlockDevice} {
		dev := nfsclient.Device{Major: 241, Minor: 70000}
		m, err := e.c.Mknod(e.ctx, e.cr, e.dir, name, kind, dev, nfsclient.SetAttr{Mode: ptr(uint32(0o600))})
		if s, ok := nfsclient.StatusOf(err); ok && (s == nfsclient.ErrPerm || s == nfsclient.ErrNotSupp) {
			e.Skip("server makes no devices")
		}
		e.made(m, err, name, kind)
		if m.Attr.Rdev != dev {
			e.Errorf("%s: %+v, made as %+v", name, m.Attr.Rdev, dev)
		}
	}
}
