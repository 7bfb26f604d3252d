package nfstest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

func testMount(e *env) {
	h, a := e.c.Root()
	if h == "" || a.Type != nfsclient.Directory {
		e.Errorf("root %q: %+v", h, a)
	}
	if now := e.attr(h); now.FileID != a.FileID || now.FSID != a.FSID {
		e.Errorf("root was %+v, is %+v", a, now)
	}
	i := e.c.Info()
	if i.ReadMax < 1024 || i.WriteMax < 1024 || i.ReadDirMax < 1024 || i.NameMax == 0 || i.Version == "" {
		e.Errorf("%+v", i)
	}
}

func testStatFS(e *env) {
	s, err := e.c.StatFS(e.ctx, e.cr, e.dir)
	e.check(err)
	if s.TotalBytes == 0 || s.FreeBytes > s.TotalBytes || s.AvailBytes > s.FreeBytes || s.FreeFiles > s.TotalFiles || s.NameMax == 0 {
		e.Errorf("%+v", s)
	}
}

func testLookup(e *env) {
	h := e.create("file")
	f, err := e.c.Lookup(e.ctx, e.cr, e.dir, "file")
	e.check(err)
	if f.Handle != h || f.Attr != nil && f.Attr.Type != nfsclient.Regular || f.Dir != nil && f.Dir.Type != nfsclient.Directory {
		e.Errorf("%+v", f)
	}
	f, err = e.c.Lookup(e.ctx, e.cr, e.dir, ".")
	e.check(err)
	if f.Handle != e.dir {
		e.Errorf(". is %x, the directory %x", f.Handle, e.dir)
	}
	_, err = e.c.Lookup(e.ctx, e.cr, e.dir, "none")
	e.status("LOOKUP of nothing", err, nfsclient.ErrNoEnt)
	_, err = e.c.Lookup(e.ctx, e.cr, h, "x")
	e.status("LOOKUP in a file", err, nfsclient.ErrNotDir)
}

func testNames(e *env) {
	longest := int(e.c.Info().NameMax)
	names := []string{"a b", "ä\u4e16\u754c", "with\nnewline", "-", "...", strings.Repeat("n", longest)}
	for _, name := range names {
		e.create(name)
	}
	for _, plus := range []bool{false, true} {
		got := e.list(e.dir, plus)
		for _, name := range names {
			if _, ok := got[name]; !ok {
				e.Errorf("%q is not listed (plus %v)", name, plus)
			}
		}
	}
	long := strings.Repeat("n", longest+1)
	_, err := e.c.Lookup(e.ctx, e.cr, e.dir, long)
	e.status("LOOKUP", err, nfsclient.ErrNameTooLong)
	_, err = e.c.Create(e.ctx, e.cr, e.dir, long, nfsclient.SetAttr{}, false, 0)
	e.status("CREATE", err, nfsclient.ErrNameTooLong)
	_, err = e.c.Mkdir(e.ctx, e.cr, e.dir, long, nfsclient.SetAttr{})
	e.status("MKDIR", err, nfsclient.ErrNameTooLong)
	_, _, err = e.c.Rename(e.ctx, e.cr, e.dir, "a b", e.dir, long)
	e.status("RENAME", err, nfsclient.ErrNameTooLong)
	_, err = e.c.Remove(e.ctx, e.cr, e.dir, long)
	e.status("REMOVE", err, nfsclient.ErrNameTooLong, nfsclient.ErrNoEnt)
}

func testAttributes(e *env) {
	h := e.create("file")
	a := e.attr(h)
	if a.Type != nfsclient.Regular || a.Mode != 0o644 || a.Nlink != 1 || a.Size != 0 || a.FileID == 0 {
		e.Errorf("new file: %+v", a)
	}
	if d := e.attr(e.dir); d.Type != nfsclient.Directory || d.FSID != a.FSID || d.FileID == a.FileID {
		e.Errorf("directory %+v of %+v", d, a)
	}
	for _, mode := range []uint32{0o600, 0o4711, 0o1777, 0} {
		wcc, err := e.c.SetAttr(e.ctx, e.cr, h, nil, nfsclient.SetAttr{Mode: &mode})
		e.check(err)
		if wcc.After.Set && wcc.After.Mode != mode {
			e.Errorf("after SETATTR to %o: %o", mode, wcc.After.Mode)
		}
		if got := e.attr(h).Mode; got != mode {
			e.Errorf("mode %o, set to %o", got, mode)
		}
	}
	if e.isRoot() {
		_, err := e.c.SetAttr(e.ctx, e.cr, h, nil, nfsclient.SetAttr{UID: ptr(uint32(12)), GID: ptr(uint32(1 << 20))})
		e.check(err)
		if a := e.attr(h); a.UID != 12 || a.GID != 1<<20 {
			e.Errorf("owner %d:%d", a.UID, a.GID)
		}
	}
}

// isRoot reports whether the server treats the suite's user as root.
func (e *env) isRoot() bool { return e.cr.UID == 0 && e.attr(e.dir).UID == 0 }

func testTimes(e *env) {
	h := e.create("file")
	step := max(e.c.Info().TimeDelta, time.Nanosecond)
	at, mt := time.Unix(1000000000, 123456789), time.Unix(0xfffffffe, 987654321)
	_, err := e.c.SetAttr(e.ctx, e.cr, h, nil, nfsclient.SetAttr{SetAtime: nfsclient.TimeClient, Atime: at, SetMtime: nfsclient.TimeClient, Mtime: mt})
	// File systems with 32-bit times refuse or clamp the far one.
	e.check(err)
	a := e.attr(h)
	if d := at.Sub(a.Atime); d < 0 || d >= step+1000 {
		e.Errorf("atime %v, set to %v", a.Atime, at)
	}
	if a.Mtime.After(mt) || a.Mtime.Before(time.Unix(1<<31-1, 0)) {
		e.Errorf("mtime %v, set to %v", a.Mtime, mt)
	}
	_, err = e.c.SetAttr(e.ctx, e.cr, h, nil, nfsclient.SetAttr{SetMtime: nfsclient.TimeServer})
	e.check(err)
	b := e.attr(h)
	if !b.Atime.Equal(a.Atime) {
		e.Errorf("atime became %v though only mtime was set", b.Atime)
	}
	// The ctime, which no client can set, shows the server's clock.
	if d := b.Ctime.Sub(b.Mtime); d < -time.Second || d > time.Second {
		e.Errorf("mtime set to the server's time is %v, ctime %v", b.Mtime, b.Ctime)
	}
	if b.Ctime.Before(a.Ctime) {
		e.Errorf("ctime went back from %v to %v", a.Ctime, b.Ctime)
	}
}

func testAccess(e *env) {
	h := e.create("file")
	const all = nfsclient.AccessRead | nfsclient.AccessLookup | nfsclient.AccessModify | nfsclient.AccessExtend | nfsclient.AccessDelete | nfsclient.AccessExecute
	got, _, err := e.c.Access(e.ctx, e.cr, e.dir, all)
	e.check(err)
	const dirRights = nfsclient.AccessRead | nfsclient.AccessLookup | nfsclient.AccessModify | nfsclient.AccessExtend
	if got&dirRights != dirRights {
		e.Errorf("own directory: %#x", got)
	}
	got, _, err = e.c.Access(e.ctx, e.cr, h, nfsclient.AccessRead|nfsclient.AccessModify|nfsclient.AccessExecute)
	e.check(err)
	if got != nfsclient.AccessRead|nfsclient.AccessModify {
		e.Errorf("own file of mode 644: %#x", got)
	}
	got, _, err = e.c.Access(e.ctx, e.cr, h, nfsclient.AccessRead)
	e.check(err)
	if got != nfsclient.AccessRead {
		e.Errorf("asked for read alone: %#x", got)
	}
}

// Another user has no rights to a file that only root may use.
func testPermissions(e *env) {
	if !e.isRoot() {
		e.Skip("needs to be root at the server")
	}
	h := e.create("file")
	e.write(h, 0, []byte("secret"), nfsclient.FileSync)
	_, err := e.c.SetAttr(e.ctx, e.cr, h, nil, nfsclient.SetAttr{Mode: ptr(uint32(0o600))})
	e.check(err)
	other := nfsclient.Cred{UID: 12345, GID: 12345, GIDs: []uint32{12345}}
	got, _, err := e.c.Access(e.ctx, other, h, nfsclient.AccessRead|nfsclient.AccessModify)
	e.check(err)
	if got != 0 {
		e.Errorf("ACCESS gives %#x", got)
	}
	v := mem.Vec{e.arena.Seg(0, 6)}
	_, err = e.c.Read(e.ctx, other, h, nil, 0, v)
	e.status("READ", err, nfsclient.ErrAccess, nfsclient.ErrPerm)
	_, err = e.c.Write(e.ctx, other, h, nil, 0, v, nfsclient.FileSync)
	e.status("WRITE", err, nfsclient.ErrAccess, nfsclient.ErrPerm)
	_, err = e.c.SetAttr(e.ctx, other, h, nil, nfsclient.SetAttr{Mode: ptr(uint32(0o777))})
	e.status("SETATTR", err, nfsclient.ErrPerm, nfsclient.ErrAccess)
	_, err = e.c.Create(e.ctx, other, e.dir, "theirs", nfsclient.SetAttr{}, false, 0)
	e.status("CREATE", err, nfsclient.ErrAccess, nfsclient.ErrPerm)
	_, err = e.c.Remove(e.ctx, other, e.dir, "file")
	e.status("REMOVE", err, nfsclient.ErrAccess, nfsclient.ErrPerm)
	_, err = e.c.SetAttr(e.ctx, e.cr, h, nil, nfsclient.SetAttr{Mode: ptr(uint32(0o640)), GID: ptr(uint32(777))})
	e.check(err)
	other.GIDs = append(other.GIDs, 777)
	r, err := e.c.Read(e.ctx, other, h, nil, 0, v)
	if err != nil || r.N != 6 {
		e.Errorf("READ by a supplementary group: %+v, %v", r, err)
	}
}

func testStale(e *env) {
	file, dir := e.create("file"), e.mkdir("dir")
	_, err := e.c.Remove(e.ctx, e.cr, e.dir, "file")
	e.check(err)
	_, err = e.c.Rmdir(e.ctx, e.cr, e.dir, "dir")
	e.check(err)
	// A new file may get the fileid of a removed one, but not its handle.
	e.create("file")
	e.mkdir("dir")
	v := mem.Vec{e.arena.Seg(0, 16)}
	for what, f := range map[string]func() error{
		"GETATTR":              func() error { _, err := e.c.GetAttr(e.ctx, e.cr, file); return err },
		"GETATTR of directory": func() error { _, err := e.c.GetAttr(e.ctx, e.cr, dir); return err },
		"SETATTR": func() error {
			_, err := e.c.SetAttr(e.ctx, e.cr, file, nil, nfsclient.SetAttr{Mode: ptr(uint32(0o600))})
			return err
		},
		"READ":    func() error { _, err := e.c.Read(e.ctx, e.cr, file, nil, 0, v); return err },
		"WRITE":   func() error { _, err := e.c.Write(e.ctx, e.cr, file, nil, 0, v, nfsclient.Unstable); return err },
		"COMMIT":  func() error { _, _, err := e.c.Commit(e.ctx, e.cr, file, 0, 0); return err },
		"ACCESS":  func() error { _, _, err := e.c.Access(e.ctx, e.cr, file, nfsclient.AccessRead); return err },
		"LOOKUP":  func() error { _, err := e.c.Lookup(e.ctx, e.cr, dir, "x"); return err },
		"CREATE":  func() error { _, err := e.c.Create(e.ctx, e.cr, dir, "x", nfsclient.SetAttr{}, false, 0); return err },
		"READDIR": func() error { _, err := e.c.ReadDir(e.ctx, e.cr, dir, nfsclient.DirPos{}, false); return err },
	} {
		e.status(what, f(), nfsclient.ErrStale)
	}
}

func testBadHandle(e *env) {
	// Not a handle with bytes appended: Linux ignores those.
	for _, h := range []nfsclient.Handle{"x", nfsclient.Handle(strings.Repeat("\xff", 64)), e.dir[:len(e.dir)-1]} {
		_, err := e.c.GetAttr(e.ctx, e.cr, h)
		e.status("GETATTR of a made-up handle", err, nfsclient.ErrBadHandle, nfsclient.ErrStale)
	}
}

func testCanceled(e *env) {
	h := e.create("file")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.c.GetAttr(ctx, e.cr, h); !errors.Is(err, context.Canceled) {
		e.Errorf("GETATTR: %v", err)
	}
	if _, err := e.c.Read(ctx, e.cr, h, nil, 0, mem.Vec{e.arena.Seg(0, 4096)}); !errors.Is(err, context.Canceled) {
		e.Errorf("READ: %v", err)
	}
	e.attr(h)
}
