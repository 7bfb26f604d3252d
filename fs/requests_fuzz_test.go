package fs

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// overServer is a file system over an embedded server, without a kernel.
func overServer(t testing.TB) (*FS, *nfsd.Server) {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	server, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: t.TempDir(), Path: "/export", Squash: nfsd.SquashNone, Async: true}}})
	must(err)
	t.Cleanup(func() { must(server.Close()) })
	addr, err := server.ListenTCP("127.0.0.1:0")
	must(err)
	dialTo := func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
		d, err := tcp.NewDialer(tcp.Config{Addr: to})
		if err != nil {
			return nil, err
		}
		c := reconnect.New(d, reconnect.Config{Server: to.String(), Soft: true, Retrans: 10})
		return c, c.Connect(ctx)
	}
	caller, err := dialTo(context.Background(), addr)
	must(err)
	locks := nlm.New(nlm.Config{Host: "server", Addr: addr.Addr(), MachineName: "here", Timeo: time.Minute, Log: testlog.New(t),
		Port:   func(context.Context) (uint16, error) { return addr.Port(), nil },
		Dialer: func(to netip.AddrPort) (transport.Dialer, error) { return tcp.NewDialer(tcp.Config{Addr: to}) }})
	client, err := nfs3.Mount(context.Background(), nfs3.Config{Host: "server", Addr: addr.Addr(), Export: "/export", Caller: caller,
		Dial: dialTo, MountPort: addr.Port(), Cred: nfsclient.Cred{}, Log: testlog.New(t), Locks: locks})
	must(err)
	t.Cleanup(func() { must(client.Close(context.Background())) })
	pool, err := bufpool.New(bufpool.Config{Limit: 16 << 20, Register: client.Register, Unregister: client.Unregister})
	must(err)
	t.Cleanup(func() { must(pool.Close()) })
	k := NewKernel()
	c, err := cache.New(client, pool, cache.Config{RSize: 1 << 16, WSize: 1 << 16, ReadAhead: 1 << 18, Kernel: k})
	must(err)
	t.Cleanup(func() { must(c.Close(context.Background())) })
	f, stop := newFS(c, k, Config{MaxIO: 1 << 20, PosixLocks: true, Flocks: true})
	t.Cleanup(stop)
	return f, server
}

// script is a fuzzer's bytes, taken as a sequence of requests.
type script []byte

func (s *script) next() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

// requests remembers what the kernel was given, so that most of what it sends
// makes sense.
type requests struct {
	fs      *FS
	nodes   []uint64 // one for each lookup
	files   []uint64
	dirs    []uint64
	waits   []wait
	buf     []byte
	entries []byte
}

// wait is a SETLKW under way.
type wait struct {
	fh              uint64
	cancel, replied chan struct{}
}

// pick is one of the numbers given, or now and then one that was not.
func pick(s *script, given []uint64) uint64 {
	b := s.next()
	if b >= 250 || len(given) == 0 {
		return []uint64{0, 1, 2, 1<<32 - 1, 1 << 63, 1<<64 - 1}[b%6]
	}
	return given[int(b)%len(given)]
}

func (r *requests) header(s *script) fuse.InHeader {
	return fuse.InHeader{NodeId: pick(s, append(r.nodes, fuse.FUSE_ROOT_ID)), Caller: fuse.Caller{Owner: fuse.Owner{Uid: uint32(s.next() % 2)}}}
}

func name(s *script) string {
	names := []string{"a", "b", "c", "d", ".", "..", "", "x/y", "\x00", "\xff", ".nfs1", strings.Repeat("n", 255), strings.Repeat("n", 256),
		strings.Repeat("n", 1024)}
	return names[int(s.next())%len(names)]
}

func number(s *script) uint64 {
	b := s.next()
	return []uint64{0, 1, 4095, 4096, 1 << 16, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1}[int(b)%13]
}

// learn takes up a node that an answer gave the kernel.
func (r *requests) learn(e *fuse.EntryOut, st fuse.Status) {
	if st.Ok() && e.NodeId != 0 {
		r.nodes = append(r.nodes, e.NodeId)
	}
}

// run sends requests until the script ends, at most 64.
func (r *requests) run(s *script) {
	f, never := r.fs, make(chan struct{})
	for i := 0; i < 64 && len(*s) > 0; i++ {
		op := s.next()
		h := r.header(s)
		var e fuse.EntryOut
		var a fuse.AttrOut
		var o fuse.OpenOut
		switch op % 30 {
		case 0:
			r.learn(&e, f.Lookup(never, &h, name(s), &e))
		case 1:
			if n := len(r.nodes); n > 0 {
				at := int(s.next()) % n
				f.Forget(r.nodes[at], 1)
				r.nodes = slices.Delete(r.nodes, at, at+1)
			}
		case 2:
			f.GetAttr(never, &fuse.GetAttrIn{InHeader: h, Flags_: uint32(s.next()), Fh_: pick(s, r.files)}, &a)
		case 3:
			in := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: h, Valid: uint32(s.next()) | uint32(s.next())<<8,
				Fh: pick(s, r.files), Size: number(s) % (1 << 24), Mode: uint32(number(s)), Atime: number(s), Mtime: number(s), Mtimensec: uint32(number(s))}}
			f.SetAttr(never, &in, &a)
		case 4:
			r.learn(&e, f.Mkdir(never, &fuse.MkdirIn{InHeader: h, Mode: uint32(number(s))}, name(s), &e))
		case 5:
			r.learn(&e, f.Mknod(never, &fuse.MknodIn{InHeader: h, Mode: uint32(s.next()) << 8, Rdev: uint32(number(s))}, name(s), &e))
		case 6:
			f.Unlink(never, &h, name(s))
		case 7:
			f.Rmdir(never, &h, name(s))
		case 8:
			f.Rename(never, &fuse.RenameIn{InHeader: h, Newdir: pick(s, append(r.nodes, fuse.FUSE_ROOT_ID)), Flags: uint32(s.next() % 4)}, name(s), name(s))
		case 9:
			r.learn(&e, f.Link(never, &fuse.LinkIn{InHeader: h, Oldnodeid: pick(s, r.nodes)}, name(s), &e))
		case 10:
			r.learn(&e, f.Symlink(never, &h, name(s), name(s), &e))
		case 11:
			f.Readlink(never, &h)
		case 12:
			f.Access(never, &fuse.AccessIn{InHeader: h, Mask: uint32(s.next())})
		case 13:
			f.StatFs(never, &h, &fuse.StatfsOut{})
		case 14:
			var out fuse.CreateOut
			st := f.Create(never, &fuse.CreateIn{InHeader: h, Flags: uint32(s.next()) | uint32(s.next())<<8, Mode: 0o644}, name(s), &out)
			if r.learn(&out.EntryOut, st); st.Ok() {
				r.files = append(r.files, out.Fh)
			}
		case 15, 16:
			if f.Open(never, &fuse.OpenIn{InHeader: h, Flags: uint32(s.next()) | uint32(s.next())<<8}, &o).Ok() {
				r.files = append(r.files, o.Fh)
			}
		case 17:
			in := fuse.ReadIn{InHeader: h, Fh: pick(s, r.files), Offset: number(s), Size: uint32(number(s)), ReadFlags: uint32(s.next())}
			if res, st := f.Read(never, &in, r.buf[:int(s.next())<<8]); st.Ok() {
				res.Done()
			}
		case 18, 19:
			data := r.buf[:int(s.next())<<8]
			in := fuse.WriteIn{InHeader: h, Fh: pick(s, r.files), Offset: number(s) % (1 << 24), Size: uint32(len(data)), WriteFlags: uint32(s.next() % 8)}
			if n, st := f.Write(never, &in, data); st.Ok() && int(n) > len(data) {
				panic("more written than there was")
			}
		case 20:
			f.Flush(never, &fuse.FlushIn{InHeader: h, Fh: pick(s, r.files), LockOwner: uint64(s.next() % 4)})
		case 21:
			f.Fsync(never, &fuse.FsyncIn{InHeader: h, Fh: pick(s, r.files)})
		case 22:
			if n := len(r.files); n > 0 {
				at := int(s.next()) % n
				r.interrupt(func(w wait) bool { return w.fh == r.files[at] })
				f.Release(never, &fuse.ReleaseIn{InHeader: h, Fh: r.files[at]})
				r.files = slices.Delete(r.files, at, at+1)
			}
		case 23:
			if f.OpenDir(never, &fuse.OpenIn{InHeader: h}, &o).Ok() {
				r.dirs = append(r.dirs, o.Fh)
			}
		case 24:
			in := fuse.ReadIn{InHeader: h, Fh: pick(s, r.dirs), Offset: number(s)}
			f.ReadDir(never, &in, fuse.NewDirEntryList(r.entries[:16*int(s.next())], in.Offset))
		case 25:
			if n := len(r.dirs); n > 0 {
				at := int(s.next()) % n
				f.ReleaseDir(&fuse.ReleaseIn{InHeader: h, Fh: r.dirs[at]})
				r.dirs = slices.Delete(r.dirs, at, at+1)
			}
		case 26:
			var out fuse.LkOut
			in := r.lock(s, h)
			if f.GetLk(never, &in, &out).Ok() && out.Lk.Typ != syscall.F_UNLCK && out.Lk.End < out.Lk.Start {
				panic("a lock that ends before it begins")
			}
		case 27:
			in := r.lock(s, h)
			f.SetLk(never, &in)
		case 28:
			in, w := r.lock(s, h), wait{cancel: make(chan struct{}), replied: make(chan struct{})}
			w.fh = in.Fh
			r.waits = append(r.waits, w)
			go func() {
				defer close(w.replied)
				f.SetLkw(w.cancel, &in)
			}()
		case 29:
			if n := len(r.waits); n > 0 {
				w := r.waits[int(s.next())%n]
				r.interrupt(func(other wait) bool { return other == w })
			}
		}
	}
}

// lock is what a program asks for: of four owners, fcntl(2)'s and flock(2)'s.
func (r *requests) lock(s *script, h fuse.InHeader) fuse.LkIn {
	b := s.next()
	in := fuse.LkIn{InHeader: h, Fh: pick(s, r.files), Owner: uint64(b % 4), LkFlags: uint32(b>>2) & fuse.FUSE_LK_FLOCK}
	in.Lk = fuse.FileLock{Start: number(s), End: number(s), Typ: uint32(s.next() % 4), Pid: uint32(b)}
	return in
}

// interrupt ends waits for locks, and returns once they have been answered. The kernel
// sends the last close of a file after the answers to what it has asked of it.
func (r *requests) interrupt(which func(wait) bool) {
	r.waits = slices.DeleteFunc(r.waits, func(w wait) bool {
		if which(w) {
			close(w.cancel)
			<-w.replied
			return true
		}
		return false
	})
}

// end gives back everything that the kernel holds, as an unmount does.
func (r *requests) end() {
	r.interrupt(func(wait) bool { return true })
	for _, fh := range r.files {
		r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	}
	for _, fh := range r.dirs {
		r.fs.ReleaseDir(&fuse.ReleaseIn{Fh: fh})
	}
	for _, id := range r.nodes {
		r.fs.Forget(id, 1)
	}
}

// FuzzRequests: requests in any order, with numbers that were never given,
// absurd offsets and names, are answered or refused. What the kernel was given
// is balanced by what it gives back, and no lock outlives the files.
func FuzzRequests(f *testing.F) {
	f.Add([]byte{14, 0, 0, 2, 0, 0, 18, 0, 0, 16, 0, 0, 0, 20, 0, 0, 0, 0, 22, 0, 0, 0})
	f.Add([]byte{4, 255, 0, 3, 0, 0, 0, 0, 23, 0, 0, 24, 0, 0, 0, 0, 255, 25, 0, 0, 0, 7, 0, 0, 0})
	f.Add([]byte{14, 0, 0, 66, 0, 0, 8, 0, 0, 0, 0, 0, 1, 6, 0, 0, 1, 17, 0, 0, 0, 0, 4, 1, 16, 21, 0, 0, 0})
	f.Add([]byte{3, 255, 0, 255, 255, 0, 9, 5, 11, 12, 6, 0, 10, 0, 0, 0, 11, 11, 1, 0, 5, 0, 0, 255, 9, 2})
	// Two files that are one: two owners ask for locks, some of them wait, one is interrupted.
	f.Add([]byte{14, 0, 0, 2, 0, 0, 15, 0, 0, 2, 0, 27, 0, 0, 1, 0, 0, 12, 1, 26, 0, 0, 2, 1, 0, 12, 0, 28, 0, 0, 2, 1, 0, 12, 1,
		28, 0, 0, 3, 0, 1, 4, 0, 27, 0, 0, 1, 0, 1, 2, 2, 29, 0, 0, 1, 20, 0, 0, 0, 1, 22, 0, 0, 1, 27, 0, 0, 2, 0, 0, 12, 2})
	// flock(2): shared by two, then both want it alone.
	f.Add([]byte{14, 0, 0, 2, 0, 0, 15, 0, 0, 2, 0, 27, 0, 0, 4, 0, 0, 12, 0, 27, 0, 0, 4, 1, 0, 12, 0, 28, 0, 0, 4, 0, 0, 12, 1,
		28, 0, 0, 4, 1, 0, 12, 1, 22, 0, 0, 0})
	over, server := overServer(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &requests{fs: over, buf: make([]byte, 1<<16), entries: make([]byte, 1<<12)}
		s := script(b)
		r.run(&s)
		r.end()
		if n := over.nodes.count(); n != 1 {
			t.Errorf("%d nodes are held, and nobody knows them", n-1)
		}
		// What was granted to a request that was interrupted is given back behind it.
		for end := time.Now().Add(time.Minute); server.Locks() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d ranges are locked, and every file is closed", server.Locks())
			}
		}
	})
}
