package nfsd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

func TestPrograms(t *testing.T) {
	c := start(t, Export{})
	ctx := t.Context()
	for _, v := range []struct {
		prog, vers, proc uint32
		want             transport.AcceptStat
	}{
		{wire.NFSProgram, 3, wire.ProcNull, transport.Success},
		{wire.NFSProgram, 3, 22, transport.ProcUnavail},
		{wire.NFSProgram, 2, 0, transport.ProgMismatch},
		{wire.NFSProgram, 4, 0, transport.ProgMismatch},
		{wire.MountProgram, 3, wire.MountNull, transport.Success},
		{wire.MountProgram, 1, 0, transport.ProgMismatch},
		{wire.MountProgram, 3, 6, transport.ProcUnavail},
		{wire.RpcbindProgram, 2, 0, transport.Success},
		{wire.RpcbindProgram, 4, 0, transport.ProgMismatch},
		{100227, 3, 0, transport.ProgUnavail},
	} {
		if got, _ := c.raw(ctx, c.xid.Add(1), v.prog, v.vers, v.proc, nil); got != v.want {
			t.Errorf("program %d version %d procedure %d: accept_stat %d, want %d", v.prog, v.vers, v.proc, got, v.want)
		}
	}
}

// TestGarbage cuts and extends the arguments of every procedure: none may be
// carried out, or panic.
func TestGarbage(t *testing.T) {
	c := start(t, Export{})
	f := c.mustCreate(c.root, "f")
	where := wire.DirOp{Dir: c.root, Name: "name"}
	for proc, a := range map[uint32]wire.Message{
		wire.ProcGetAttr: &wire.HandleArgs{Handle: f}, wire.ProcSetAttr: &wire.SetAttrArgs{Handle: f, Attr: mode(0)},
		wire.ProcLookup: &where, wire.ProcAccess: &wire.AccessArgs{Handle: f, Access: 1},
		wire.ProcReadLink: &wire.HandleArgs{Handle: f}, wire.ProcRead: &wire.ReadArgs{Handle: f, Count: 1},
		wire.ProcWrite:  &wire.WriteArgs{Handle: f, Count: 4, Data: wire.Inline([]byte("data"))},
		wire.ProcCreate: &wire.CreateArgs{Where: where}, wire.ProcMkdir: &wire.MkdirArgs{Where: where},
		wire.ProcSymlink: &wire.SymlinkArgs{Where: where, Target: wire.Inline([]byte("t"))},
		wire.ProcMknod:   &wire.MknodArgs{Where: where, Type: nfsclient.FIFO},
		wire.ProcRemove:  &where, wire.ProcRmdir: &where, wire.ProcRename: &wire.RenameArgs{From: where, To: where},
		wire.ProcLink: &wire.LinkArgs{Handle: f, Where: where}, wire.ProcReadDir: &wire.ReadDirArgs{Dir: c.root, Count: 4096},
		wire.ProcReadDirPlus: &wire.ReadDirPlusArgs{Dir: c.root, DirCount: 4096, MaxCount: 4096},
		wire.ProcFSStat:      &wire.HandleArgs{Handle: f}, wire.ProcFSInfo: &wire.HandleArgs{Handle: f},
		wire.ProcPathConf: &wire.HandleArgs{Handle: f}, wire.ProcCommit: &wire.CommitArgs{Handle: f},
	} {
		whole := encode(a)
		for n := range len(whole) {
			if stat, _ := c.raw(t.Context(), c.xid.Add(1), wire.NFSProgram, 3, proc, whole[:n]); stat != transport.GarbageArgs {
				t.Errorf("procedure %d cut to %d bytes: accept_stat %d", proc, n, stat)
			}
		}
		if stat, _ := c.raw(t.Context(), c.xid.Add(1), wire.NFSProgram, 3, proc, append(bytes.Clone(whole), 0, 0, 0, 0)); stat != transport.GarbageArgs {
			t.Errorf("procedure %d with a word too many: accept_stat %d", proc, stat)
		}
	}
	if es := c.list(c.root, false, 4096, nil); len(es) != 3 {
		t.Errorf("garbage was carried out: %v", es)
	}
}

func TestMountProgram(t *testing.T) {
	c := start(t, Export{})
	path := c.s.exports[0].Path
	d := c.mustMkdir(c.root, "d")
	c.mustCreate(d, "f")
	mnt := func(p string) wire.MntRes {
		var res wire.MntRes
		c.program(wire.MountProgram, 3, wire.MountMnt, &wire.PathArgs{Path: p}, &res)
		return res
	}
	if res := mnt(path); res.Handle != c.root || len(res.Flavors) == 0 || res.Flavors[0] != wire.AuthSys {
		t.Errorf("MNT: %+v", res)
	}
	if res := mnt(path + "/d/"); res.Handle != d {
		t.Errorf("MNT below: %+v", res)
	}
	for p, want := range map[string]wire.MountStatus{
		path + "/none": wire.MountErrNoEnt, path + "/d/f": wire.MountErrNotDir, path + "/d/f/x": wire.MountErrNotDir,
		"/none": wire.MountErrNoEnt, path + "x": wire.MountErrNoEnt, path + "/" + strings.Repeat("x", 256): wire.MountErrNameTooLong,
	} {
		if res := mnt(p); res.Status != want {
			t.Errorf("MNT %s: %v, want %v", p, res.Status, want)
		}
	}
	dump := func() int {
		var res wire.DumpRes
		c.program(wire.MountProgram, 3, wire.MountDump, &wire.Void{}, &res)
		return len(res.Mounts)
	}
	if dump() != 2 {
		t.Errorf("DUMP: %d", dump())
	}
	c.program(wire.MountProgram, 3, wire.MountUmnt, &wire.PathArgs{Path: path + "/d"}, &wire.Void{})
	if dump() != 1 {
		t.Errorf("DUMP after UMNT: %d", dump())
	}
	other := *c
	other.peer = "192.0.2.2:700"
	other.program(wire.MountProgram, 3, wire.MountUmntAll, &wire.Void{}, &wire.Void{})
	if dump() != 1 {
		t.Error("another host's UMNTALL took our mount")
	}
	c.program(wire.MountProgram, 3, wire.MountUmntAll, &wire.Void{}, &wire.Void{})
	if dump() != 0 {
		t.Errorf("DUMP after UMNTALL: %d", dump())
	}
	var exp wire.ExportRes
	c.program(wire.MountProgram, 3, wire.MountExport, &wire.Void{}, &exp)
	if len(exp.Exports) != 1 || exp.Exports[0].Path != path {
		t.Errorf("EXPORT: %+v", exp)
	}
}

func TestSeveralExports(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	c := start(t, Export{Dir: one, Path: "/one"}, func(cfg *Config) {
		cfg.Exports = append(cfg.Exports, Export{Dir: two, Path: "/one/two", Squash: SquashNone})
	})
	inner := c.mnt("/one/two")
	if inner == c.root {
		t.Fatal("both exports have one root")
	}
	f := c.mustCreate(inner, "f")
	a, _ := c.getattr(f)
	b, _ := c.getattr(c.root)
	if a.FSID == b.FSID {
		t.Error("both exports have one fsid")
	}
	c.want("RENAME across exports", c.rename(inner, "f", c.root, "f").Status, nfsclient.ErrXDev)
	var ln wire.LinkRes
	c.call(wire.ProcLink, &wire.LinkArgs{Handle: f, Where: c.at(c.root, "f")}, &ln)
	c.want("LINK across exports", ln.Status, nfsclient.ErrXDev)

	for _, bad := range []Config{
		{},
		{Exports: []Export{{Dir: one}, {Dir: one}}},
		{Exports: []Export{{Dir: filepath.Join(one, "none")}}},
		{Exports: []Export{{Dir: one, Path: "relative"}}},
		{Exports: []Export{{Dir: one}}, MaxIO: 1},
	} {
		if s, err := New(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
			_ = s.Close()
		}
	}
}

// TestDuplicates sends calls twice: the second is answered as the first was,
// and changes nothing.
func TestDuplicates(t *testing.T) {
	c := start(t, Export{})
	twice := func(c *client, proc uint32, a wire.Message) (first, second []byte) {
		xid := c.xid.Add(1)
		_, first = c.raw(t.Context(), xid, wire.NFSProgram, 3, proc, encode(a))
		c.peer = "192.0.2.1:999" // another connection of the same host
		_, second = c.raw(t.Context(), xid, wire.NFSProgram, 3, proc, encode(a))
		return first, second
	}
	same := func(what string, proc uint32, a wire.Message) {
		t.Helper()
		if x, y := twice(c, proc, a); !bytes.Equal(x, y) || len(x) == 0 || !bytes.Equal(x[:4], make([]byte, 4)) {
			t.Errorf("%s: answered\n%x, then\n%x", what, x, y)
		}
	}
	where := wire.DirOp{Dir: c.root, Name: "x"}
	same("MKDIR", wire.ProcMkdir, &wire.MkdirArgs{Where: where})
	same("RENAME", wire.ProcRename, &wire.RenameArgs{From: where, To: wire.DirOp{Dir: c.root, Name: "y"}})
	same("RMDIR", wire.ProcRmdir, &wire.DirOp{Dir: c.root, Name: "y"})
	same("CREATE", wire.ProcCreate, &wire.CreateArgs{Where: where, Mode: wire.Guarded})
	f := c.lookup(c.root, "x").Handle
	same("WRITE", wire.ProcWrite, &wire.WriteArgs{Handle: f, Count: 4, Data: wire.Inline([]byte("data"))})
	same("LINK", wire.ProcLink, &wire.LinkArgs{Handle: f, Where: wire.DirOp{Dir: c.root, Name: "z"}})
	same("REMOVE", wire.ProcRemove, &where)
	if n := c.s.Stats().Duplicates; n != 7 {
		t.Errorf("%d duplicates counted", n)
	}

	// What differs in anything but the port is another call.
	xid := c.xid.Add(1)
	mk := func(c *client, name string) nfsclient.Status {
		_, b := c.raw(t.Context(), xid, wire.NFSProgram, 3, wire.ProcMkdir, encode(&wire.MkdirArgs{Where: wire.DirOp{Dir: c.root, Name: name}}))
		var res wire.MadeRes
		parseAll(t, b, &res)
		return res.Status
	}
	c.want("first", mk(c, "n"), nfsclient.OK)
	c.want("other arguments", mk(c, "m"), nfsclient.OK)
	other := *c
	other.peer = "192.0.2.9:999"
	c.want("other host", mk(&other, "n"), nfsclient.ErrExist)
	c.want("again", mk(c, "n"), nfsclient.OK)
}

// TestDuplicateUnderWay holds the first call back: its duplicate waits and is
// answered with it.
func TestDuplicateUnderWay(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	c := start(t, Export{}, func(cfg *Config) {
		cfg.Faults = &Faults{Sync: func() error {
			if armed.CompareAndSwap(true, false) {
				close(entered)
				<-release
			}
			return nil
		}}
	})
	f := c.mustCreate(c.root, "f")
	armed.Store(true)
	xid := c.xid.Add(1)
	args := encode(&wire.SetAttrArgs{Handle: f, Attr: mode(0o600)})
	replies := make(chan []byte, 2)
	var wg sync.WaitGroup
	runSend := func() {
		defer wg.Done()
		o := c.fork()
		defer o.done()
		_, b := o.raw(t.Context(), xid, wire.NFSProgram, 3, wire.ProcSetAttr, args)
		replies <- b
	}
	wg.Add(2)
	go runSend()
	<-entered
	go runSend()
	for c.s.Stats().Duplicates == 0 {
		runtime.Gosched()
	}
	select {
	case b := <-replies:
		t.Errorf("a reply before the call was carried out: %x", b)
	default:
	}
	close(release)
	wg.Wait()
	if a, b := <-replies, <-replies; !bytes.Equal(a, b) || len(a) == 0 {
		t.Errorf("replies differ: %x, %x", a, b)
	}
}

func TestDuplicateGivesUpWithItsConnection(t *testing.T) {
	d := newDupCache(16)
	k := dupKey{host: "h", xid: 1}
	mine, _ := d.begin(k)
	_, found := d.begin(k)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if found.replay(ctx, nil) {
		t.Error("replayed what is not there yet")
	}
	d.end(mine, transport.GarbageArgs, nil)
	if again, _ := d.begin(k); again == nil {
		t.Error("a call that failed in RPC is remembered")
	}
}

func TestDupCacheIsBounded(t *testing.T) {
	d := newDupCache(64)
	for i := range uint32(1000) {
		mine, _ := d.begin(dupKey{xid: i})
		d.end(mine, transport.Success, []byte("1234"))
	}
	n := 0
	for i := range d.shard {
		n += len(d.shard[i].m)
	}
	if n != 64 {
		t.Errorf("%d entries kept", n)
	}
}

func TestConcurrency(t *testing.T) {
	for _, x := range []Export{{Async: true}, {Async: true, InodeHandles: true}, {Async: true, Lossy: true}} {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			c := start(t, x, func(cfg *Config) { cfg.MaxOpen = 64 })
			shared := c.mustCreate(c.root, "shared")
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					o := c.fork()
					defer o.done()
					work(o, g, shared)
				}()
			}
			wg.Wait()
			if a, _ := c.getattr(shared); a.Size != 8*4 {
				t.Errorf("shared file of %d bytes", a.Size)
			}
			if es := c.list(c.root, true, 4096, nil); len(es) != 3 {
				t.Errorf("%d entries are left", len(es))
			}
		})
	}
}

// work makes, uses and removes files, in a directory of its own and in the
// common one.
func work(c *client, g int, shared nfsclient.Handle) {
	check := func(what string, st nfsclient.Status) {
		if st != nfsclient.OK {
			c.t.Errorf("%s: %v", what, st)
		}
	}
	name := fmt.Sprintf("d%d", g)
	d := c.mkdir(c.root, name).Handle.Handle
	for i := range 30 {
		f := fmt.Sprintf("f%d", i)
		made := c.create(d, f, wire.Unchecked, mode(0o600))
		check("CREATE", made.Status)
		h := made.Handle.Handle
		check("WRITE", c.write(h, 0, f, nfsclient.Unstable).Status)
		if r := c.read(h, 0, 100); string(r.Data.Data) != f {
			c.t.Errorf("READ: %v %q", r.Status, r.Data.Data)
		}
		check("COMMIT", c.commit(h).Status)
		check("WRITE shared", c.write(shared, uint64(4*g), "data", nfsclient.Unstable).Status)
		check("RENAME", c.rename(d, f, c.root, name+f).Status)
		if l := c.lookup(c.root, name+f); l.Handle != h {
			c.t.Errorf("LOOKUP: %v", l.Status)
		}
		c.page(c.root, i%2 == 0, 0, nfsclient.Verifier{}, 2048)
		check("RENAME back", c.rename(c.root, name+f, d, f).Status)
		check("REMOVE", c.remove(d, f).Status)
	}
	check("RMDIR", c.rmdir(c.root, name).Status)
}

func TestStatuses(t *testing.T) {
	for err, want := range map[error]nfsclient.Status{
		nil: nfsclient.OK, errors.New("?"): nfsclient.ErrIO, unix.EIO: nfsclient.ErrIO, unix.EDQUOT: nfsclient.ErrDQuot,
		unix.ENOSPC: nfsclient.ErrNoSpace, unix.EMLINK: nfsclient.ErrMlink, unix.EMFILE: nfsclient.ErrJukebox,
		unix.EOPNOTSUPP: nfsclient.ErrNotSupp, &vfs.SyncError{Err: unix.EDQUOT}: nfsclient.ErrDQuot,
		&vfs.SyncError{Err: unix.EIO}: nfsclient.ErrIO, vfs.ErrBadCookie: nfsclient.ErrBadCookie,
	} {
		if got := statusOf(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	if mountStatusOf(unix.ESTALE) != wire.MountErrServerFault {
		t.Error("a status that MOUNT lacks")
	}
}
