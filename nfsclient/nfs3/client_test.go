package nfs3

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/pathbuf"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

var cred nfsclient.Cred

func TestGetAttrConverts(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	nfs.expect(nfsStep(wire.ProcGetAttr, &wire.GetAttrRes{Attr: wire.Attr{Type: nfsclient.BlockDevice, Mode: 0o64755, Nlink: 2,
		UID: 3, GID: 4, Size: 5, Used: 6, Rdev: nfsclient.Device{Major: 7, Minor: 8}, FSID: 9, FileID: 10,
		Atime: wire.Time{Sec: 11, Nsec: 12}, Mtime: wire.Time{Sec: 1<<32 - 1, Nsec: 999999999}, Ctime: wire.Time{}}}))
	got, err := c.GetAttr(t.Context(), cred, "h")
	want := nfsclient.Attr{Type: nfsclient.BlockDevice, Mode: 0o4755, Nlink: 2, UID: 3, GID: 4, Size: 5, Used: 6,
		Rdev: nfsclient.Device{Major: 7, Minor: 8}, FSID: 9, FileID: 10,
		Atime: time.Unix(11, 12), Mtime: time.Unix(1<<32-1, 999999999), Ctime: time.Unix(0, 0),
		Change: nfsclient.ChangeByTimes(5, time.Unix(1<<32-1, 999999999), time.Unix(0, 0))}
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestSetAttrConverts(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var args wire.SetAttrArgs
	nfs.expect(nfsStep(wire.ProcSetAttr, &wire.WccRes{Status: nfsclient.ErrPerm, Wcc: wire.Wcc{
		Before: wire.PreAttr{Set: true, Size: 7, Mtime: wire.Time{Sec: 1}}, After: filePost}}).with(&args, func(t *testing.T) {
		want := wire.SetAttrArgs{Handle: "h", Attr: wire.SetAttr{Mode: wire.OptUint32{Set: true, V: 0o644},
			GID: wire.OptUint32{Set: true, V: 5}, Size: wire.OptUint64{Set: true, V: 1 << 40},
			Atime: wire.SetTime{How: nfsclient.TimeServer}, Mtime: wire.SetTime{How: nfsclient.TimeClient, T: wire.Time{Sec: 9, Nsec: 8}}}}
		if args != want {
			t.Errorf("got %+v\nwant %+v", args, want)
		}
	}))
	mode, gid, size := uint32(0o100644), uint32(5), uint64(1)<<40
	wcc, err := c.SetAttr(t.Context(), cred, "h", nil, nfsclient.SetAttr{Mode: &mode, GID: &gid, Size: &size,
		SetAtime: nfsclient.TimeServer, Atime: time.Unix(1, 1), SetMtime: nfsclient.TimeClient, Mtime: time.Unix(9, 8)})
	wantStatus(t, err, nfsclient.ErrPerm)
	if !wcc.Before.Set || wcc.Before.ID != nfsclient.ChangeByTimes(7, time.Unix(1, 0), time.Unix(0, 0)) || !wcc.After.Set || wcc.After.FileID != 2 {
		t.Errorf("wcc with the failure: %+v", wcc)
	}
}

func TestTimesOutOfRange(t *testing.T) {
	for in, want := range map[time.Time]wire.Time{
		time.Unix(-1, 5): {},
		time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC): {Sec: 1<<32 - 1, Nsec: 999999999},
		time.Unix(3, 4): {Sec: 3, Nsec: 4},
	} {
		if got := wire.TimeOf(in); got != want {
			t.Errorf("%v: %+v", in, got)
		}
	}
}

func TestLookup(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	nfs.expect(
		nfsStep(wire.ProcLookup, &wire.LookupRes{Handle: "f", Dir: dirPost}),
		nfsStep(wire.ProcLookup, &wire.LookupRes{Status: nfsclient.ErrNoEnt, Dir: dirPost}),
		nfsStep(wire.ProcLookup, &wire.LookupRes{Dir: dirPost}),
		step{prog: wire.NFSProgram, vers: 3, proc: wire.ProcLookup, err: refusedErr},
	)
	f, err := c.Lookup(t.Context(), cred, "d", "f")
	if err != nil || f.Handle != "f" || f.Attr != nil || f.Dir == nil {
		t.Errorf("%+v, %v", f, err)
	}
	f, err = c.Lookup(t.Context(), cred, "d", "none")
	wantStatus(t, err, nfsclient.ErrNoEnt)
	if f.Dir == nil || err.Error() != "LOOKUP: no such file or directory" {
		t.Errorf("%+v, %v", f, err)
	}
	_, err = c.Lookup(t.Context(), cred, "d", "empty")
	wantProtocol(t, err, "empty file handle")
	f, err = c.Lookup(t.Context(), cred, "d", "f")
	if !errors.Is(err, refusedErr) || f != (nfsclient.Found{}) {
		t.Errorf("%+v, %v", f, err)
	}
}

// Names that are none never reach the server.
func TestNames(t *testing.T) {
	c, _, _, _ := mounted(t)
	ctx := t.Context()
	for name, want := range map[string]nfsclient.Status{"": nfsclient.ErrNoEnt, "a/b": nfsclient.ErrInval, "a\x00": nfsclient.ErrInval,
		strings.Repeat("n", 256): nfsclient.ErrNameTooLong} {
		var errs []error
		add := func(err error) { errs = append(errs, err) }
		_, err := c.Lookup(ctx, cred, "d", name)
		add(err)
		_, err = c.Create(ctx, cred, "d", name, nfsclient.SetAttr{}, false, 0)
		add(err)
		_, err = c.Mkdir(ctx, cred, "d", name, nfsclient.SetAttr{})
		add(err)
		_, err = c.Symlink(ctx, cred, "d", name, "t", nfsclient.SetAttr{})
		add(err)
		_, err = c.Mknod(ctx, cred, "d", name, nfsclient.FIFO, nfsclient.Device{}, nfsclient.SetAttr{})
		add(err)
		_, err = c.Remove(ctx, cred, "d", name)
		add(err)
		_, err = c.Rmdir(ctx, cred, "d", name)
		add(err)
		_, _, err = c.Rename(ctx, cred, "d", name, "d", "ok")
		add(err)
		_, _, err = c.Rename(ctx, cred, "d", "ok", "d", name)
		add(err)
		_, _, err = c.Link(ctx, cred, "h", "d", name)
		add(err)
		for _, err := range errs {
			wantStatus(t, err, want)
		}
	}
	_, err := c.Symlink(ctx, cred, "d", "l", strings.Repeat("t", wire.MaxPath+1), nfsclient.SetAttr{})
	wantStatus(t, err, nfsclient.ErrNameTooLong)
	_, err = c.Mknod(ctx, cred, "d", "n", nfsclient.Regular, nfsclient.Device{}, nfsclient.SetAttr{})
	wantStatus(t, err, nfsclient.ErrBadType)
}

func TestJukebox(t *testing.T) {
	c, nfs, _, waits := mounted(t)
	later := nfsStep(wire.ProcGetAttr, &wire.GetAttrRes{Status: nfsclient.ErrJukebox})
	for range 8 {
		nfs.expect(later)
	}
	nfs.expect(nfsStep(wire.ProcGetAttr, &wire.GetAttrRes{Attr: fileAttr}))
	if a, err := c.GetAttr(t.Context(), cred, "h"); err != nil || a.FileID != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	ms := time.Millisecond
	if want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}; !slices.Equal(*waits, want) {
		t.Errorf("waited %v, want %v", *waits, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	nfs.expect(later.with(&wire.HandleArgs{}, func(*testing.T) { cancel() }))
	if _, err := c.GetAttr(ctx, cred, "h"); !errors.Is(err, context.Canceled) {
		t.Errorf("with the context ended while waiting: %v", err)
	}
}

// TestJukeboxOfData: READ is tried again here, WRITE and COMMIT by who has other
// data to write meanwhile.
func TestJukeboxOfData(t *testing.T) {
	c, nfs, arena, waits := mounted(t)
	v := mem.Vec{arena.Seg(0, 5)}
	nfs.expect(nfsStep(wire.ProcRead, &wire.ReadRes{Status: nfsclient.ErrJukebox}), nfsStep(wire.ProcRead, &wire.ReadRes{EOF: true}),
		nfsStep(wire.ProcCommit, &wire.CommitRes{Status: nfsclient.ErrJukebox}),
		nfsStep(wire.ProcWrite, &wire.WriteRes{Status: nfsclient.ErrJukebox}))
	if _, err := c.Read(t.Context(), cred, "h", nil, 0, v); err != nil {
		t.Error(err)
	}
	if len(*waits) != 1 {
		t.Errorf("waited %v", *waits)
	}
	_, _, err := c.Commit(t.Context(), cred, "h", 0, 0)
	wantStatus(t, err, nfsclient.ErrJukebox)
	_, err = c.Write(t.Context(), cred, "h", nil, 0, v, nfsclient.Unstable)
	wantStatus(t, err, nfsclient.ErrJukebox)
	if len(*waits) != 1 {
		t.Errorf("waited %v", *waits)
	}
}

func TestAccessIsNoMoreThanAsked(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	nfs.expect(nfsStep(wire.ProcAccess, &wire.AccessRes{Attr: dirPost, Access: 0x3f}),
		nfsStep(wire.ProcAccess, &wire.AccessRes{Status: nfsclient.ErrStale, Attr: dirPost}))
	got, attr, err := c.Access(t.Context(), cred, "h", nfsclient.AccessRead|nfsclient.AccessLookup)
	if err != nil || got != nfsclient.AccessRead|nfsclient.AccessLookup || attr == nil {
		t.Errorf("%x %v %v", got, attr, err)
	}
	_, attr, err = c.Access(t.Context(), cred, "h", nfsclient.AccessRead)
	wantStatus(t, err, nfsclient.ErrStale)
	if attr == nil {
		t.Error("no attributes with the failure")
	}
}

func TestSymlinkTargets(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	long := strings.Repeat("t", wire.MaxPath)
	for _, target := range []string{"", "x", long} {
		var args wire.SymlinkArgs
		nfs.expect(nfsStep(wire.ProcSymlink, &wire.MadeRes{Handle: wire.PostHandle{Set: true, Handle: "l"}, Attr: filePost}).
			with(&args, func(t *testing.T) {
				if string(args.Target.Data) != target || args.Where != (wire.DirOp{Dir: "d", Name: "l"}) {
					t.Errorf("%+v", args)
				}
			}), nfsStep(wire.ProcReadLink, &wire.ReadLinkRes{Attr: filePost, Target: wire.Inline([]byte(target))}))
		if _, err := c.Symlink(t.Context(), cred, "d", "l", target, nfsclient.SetAttr{}); err != nil {
			t.Error(err)
		}
		got, attr, err := c.Readlink(t.Context(), cred, "l")
		if err != nil || got != target || attr == nil {
			t.Errorf("target of %d bytes came back with %d, %v", len(target), len(got), err)
		}
	}
	nfs.expect(nfsStep(wire.ProcReadLink, &wire.ReadLinkRes{Target: wire.Inline([]byte(long + "t"))}),
		nfsStep(wire.ProcReadLink, &wire.ReadLinkRes{Status: nfsclient.ErrInval, Attr: filePost}))
	var malformed *xdr.Error
	if _, _, err := c.Readlink(t.Context(), cred, "l"); !errors.As(err, &malformed) {
		t.Errorf("target too long: %v", err)
	}
	_, attr, err := c.Readlink(t.Context(), cred, "l")
	wantStatus(t, err, nfsclient.ErrInval)
	if attr == nil {
		t.Error("no attributes with the failure")
	}
	if n := c.paths.Free(); n != pathbuf.Count {
		t.Errorf("%d of %d buffers came back", n, pathbuf.Count)
	}
}

// With all path buffers lent, the next call waits as long as its context lets.
func TestPathBuffersAreBounded(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var lent []mem.Seg
	for range pathbuf.Count {
		s, err := c.paths.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lent = append(lent, s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Readlink(ctx, cred, "l"); !errors.Is(err, context.Canceled) {
		t.Errorf("with none free: %v", err)
	}
	nfs.expect(nfsStep(wire.ProcReadLink, &wire.ReadLinkRes{Target: wire.Inline([]byte("x"))}))
	done := make(chan error)
	go func() {
		_, _, err := c.Readlink(t.Context(), cred, "l")
		done <- err
	}()
	for _, s := range lent {
		c.paths.Put(s)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMalformedReplies(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var w xdr.Writer
	(&wire.GetAttrRes{Attr: fileAttr}).Append(&w)
	good := w.Bytes()
	for _, raw := range [][]byte{{}, good[:len(good)-1], append(bytes.Clone(good), 0, 0, 0, 0), make([]byte, len(good))} {
		nfs.expect(step{prog: wire.NFSProgram, vers: 3, proc: wire.ProcGetAttr, raw: raw})
		var malformed *xdr.Error
		if _, err := c.GetAttr(t.Context(), cred, "h"); !errors.As(err, &malformed) || !strings.HasPrefix(err.Error(), "GETATTR: ") {
			t.Errorf("%d bytes: %v", len(raw), err)
		}
	}
}

func TestStatFSAndNames(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	wcc := wire.Wcc{After: dirPost}
	nfs.expect(
		nfsStep(wire.ProcFSStat, &wire.FSStatRes{TotalBytes: 1, FreeBytes: 2, AvailBytes: 3, TotalFiles: 4, FreeFiles: 5, AvailFiles: 6}),
		nfsStep(wire.ProcRename, &wire.RenameRes{FromDir: wcc}),
		nfsStep(wire.ProcRename, &wire.RenameRes{Status: nfsclient.ErrNotEmpty, ToDir: wcc}),
		nfsStep(wire.ProcLink, &wire.LinkRes{Attr: filePost, Dir: wcc}),
		nfsStep(wire.ProcRemove, &wire.WccRes{Wcc: wcc}),
		nfsStep(wire.ProcRmdir, &wire.WccRes{Status: nfsclient.ErrNotEmpty, Wcc: wcc}),
	)
	fs, err := c.StatFS(t.Context(), cred, "h")
	if want := (nfsclient.StatFS{TotalBytes: 1, FreeBytes: 2, AvailBytes: 3, TotalFiles: 4, FreeFiles: 5, AvailFiles: 6, NameMax: 255}); err != nil || fs != want {
		t.Errorf("%+v, %v", fs, err)
	}
	from, to, err := c.Rename(t.Context(), cred, "d", "a", "e", "b")
	if err != nil || !from.After.Set || to.After.Set {
		t.Errorf("%+v %+v %v", from, to, err)
	}
	from, to, err = c.Rename(t.Context(), cred, "d", "a", "e", "b")
	wantStatus(t, err, nfsclient.ErrNotEmpty)
	if from.After.Set || !to.After.Set {
		t.Errorf("%+v %+v", from, to)
	}
	attr, dir, err := c.Link(t.Context(), cred, "h", "d", "l")
	if err != nil || attr == nil || !dir.After.Set {
		t.Errorf("%v %+v %v", attr, dir, err)
	}
	if dir, err := c.Remove(t.Context(), cred, "d", "l"); err != nil || !dir.After.Set {
		t.Errorf("%+v %v", dir, err)
	}
	dir, err = c.Rmdir(t.Context(), cred, "d", "l")
	wantStatus(t, err, nfsclient.ErrNotEmpty)
	if !reflect.DeepEqual(dir, nfsclient.Wcc{After: toResult(&dirPost)}) {
		t.Errorf("%+v", dir)
	}
}

var _ transport.Caller = (*fakeServer)(nil)

// A server that claims longer names than programs have room for is not
// believed.
func TestNameMax(t *testing.T) {
	for claimed, want := range map[uint32]uint32{0: 255, 100: 100, 255: 255, 1024: 255, 1<<32 - 1: 255} {
		conf := pathConf
		conf.NameMax = claimed
		nfs := newFake(t, nfsStep(wire.ProcFSInfo, &fsInfo), nfsStep(wire.ProcPathConf, &conf))
		c, err := Mount(t.Context(), config(t, nfs, map[uint16][]*fakeServer{mountPort: {mntOK(t), umnt(t)}}))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Info().NameMax; got != want {
			t.Errorf("%d claimed: %d", claimed, got)
		}
		_, err = c.Lookup(t.Context(), cred, "d", strings.Repeat("n", int(want)+1))
		wantStatus(t, err, nfsclient.ErrNameTooLong)
		nfs.expect(nfsStep(wire.ProcFSStat, &wire.FSStatRes{}))
		if fs, err := c.StatFS(t.Context(), cred, "h"); err != nil || fs.NameMax != want {
			t.Errorf("%d claimed: StatFS has %d, %v", claimed, fs.NameMax, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
