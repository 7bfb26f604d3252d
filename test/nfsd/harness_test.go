package nfsd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const leaseSize = 2 << 20

// client makes calls on a server without a transport.
type client struct {
	t      testing.TB
	s      *Server
	root   nfsclient.Handle
	flavor uint32
	// security is how calls are secured.
	security uint32
	sys      transport.AuthSys
	peer     string
	xid      *atomic.Uint32
	arena    *mem.Arena
	back     transport.Backchannel
}

// start serves a new directory, or x.Dir, for the length of the test.
func start(t testing.TB, x Export, f ...func(*Config)) *client {
	t.Helper()
	if x.Dir == "" {
		x.Dir = t.TempDir()
		if err := os.Chmod(x.Dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if x.Squash == SquashRoot {
		x.Squash = SquashNone
	}
	cfg := Config{Exports: []Export{x}}
	for _, g := range f {
		g(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return newClient(t, s)
}

func newClient(t testing.TB, s *Server) *client {
	t.Helper()
	a, err := mem.NewArena(leaseSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &client{t: t, s: s, peer: "192.0.2.1:700", xid: new(atomic.Uint32), arena: a, flavor: transport.FlavorSys}
	c.root = c.mnt(s.exports[0].Path)
	return c
}

// as is the client of another user.
func (c *client) as(uid, gid uint32, gids ...uint32) *client {
	o := *c
	o.sys = transport.AuthSys{UID: uid, GID: gid, GIDs: gids}
	return &o
}

// fork is a client for another goroutine.
func (c *client) fork() *client {
	o := *c
	a, err := mem.NewArena(leaseSize)
	if err != nil {
		panic(err)
	}
	o.arena = a
	return &o
}

func (c *client) done() { _ = c.arena.Close() }

// raw makes a call and returns the results as they would stand inline.
func (c *client) raw(ctx context.Context, xid, prog, vers, proc uint32, args []byte) (transport.AcceptStat, []byte) {
	var in xdr.Reader
	in.Reset(args, nil)
	var out xdr.Writer
	payloads := make([]mem.Vec, 4)
	out.Reset(nil, payloads)
	used, off := 0, 0
	q := &transport.Request{
		Transport: "tcp", Peer: c.peer, XID: xid, Prog: prog, Vers: vers, Proc: proc, Flavor: c.flavor, Security: c.security, Sys: c.sys,
		Args: &in, Reply: &out, Back: c.back,
		Lease: func(n int) (mem.Seg, error) {
			if n > leaseSize-off {
				return mem.Seg{}, fmt.Errorf("lease of %d bytes", n)
			}
			s := c.arena.Seg(off, n)
			off += n
			return s, nil
		},
		AddPayload: func(v transport.Payload) int {
			payloads[used] = v
			used++
			return used - 1
		},
	}
	stat := c.s.Handler().Serve(ctx, q)
	if stat == transport.Success && in.Err() != nil {
		stat = transport.GarbageArgs
	}
	return stat, flatten(&out, payloads)
}

// flatten puts the payloads back into the stream.
func flatten(w *xdr.Writer, payloads []mem.Vec) []byte {
	var all []byte
	b, at := w.Bytes(), 0
	for _, m := range w.Marks() {
		all = append(all, b[at:m.Off]...)
		at = m.Off
		data := make([]byte, m.Len+xdr.Pad(m.Len))
		payloads[m.Index].CopyOut(0, data)
		all = append(all, data...)
	}
	return append(all, b[at:]...)
}

func encode(a wire.Message) []byte {
	var w xdr.Writer
	a.Append(&w)
	return slices.Clone(w.Bytes())
}

// call makes a call that RPC accepts, and reads the results to the last byte.
func (c *client) call(proc uint32, a, res wire.Message) {
	c.t.Helper()
	c.program(wire.NFSProgram, wire.NFSVersion, proc, a, res)
}

func (c *client) program(prog, vers, proc uint32, a, res wire.Message) {
	c.t.Helper()
	stat, b := c.raw(context.Background(), c.xid.Add(1), prog, vers, proc, encode(a))
	if stat != transport.Success {
		c.t.Fatalf("procedure %d of %d: accept_stat %d", proc, prog, stat)
	}
	parseAll(c.t, b, res)
}

func parseAll(t testing.TB, b []byte, res wire.Message) {
	t.Helper()
	var r xdr.Reader
	r.Reset(b, nil)
	res.Parse(&r)
	if err := r.End(); err != nil {
		t.Fatalf("results %T: %v", res, err)
	}
}

func (c *client) mnt(path string) nfsclient.Handle {
	c.t.Helper()
	var res wire.MntRes
	c.program(wire.MountProgram, wire.MountVersion, wire.MountMnt, &wire.PathArgs{Path: path}, &res)
	if res.Status != wire.MountOK {
		c.t.Fatalf("MNT %s: %v", path, res.Status)
	}
	return res.Handle
}

func (c *client) want(what string, got, want nfsclient.Status) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (c *client) must(what string, got nfsclient.Status) {
	c.t.Helper()
	if got != nfsclient.OK {
		c.t.Fatalf("%s: %v", what, got)
	}
}

func mode(m uint32) wire.SetAttr { return wire.SetAttr{Mode: wire.OptUint32{Set: true, V: m}} }

func size(n uint64) wire.SetAttr { return wire.SetAttr{Size: wire.OptUint64{Set: true, V: n}} }

func (c *client) at(dir nfsclient.Handle, name string) wire.DirOp {
	return wire.DirOp{Dir: dir, Name: name}
}

func (c *client) create(dir nfsclient.Handle, name string, how wire.CreateMode, a wire.SetAttr) wire.MadeRes {
	c.t.Helper()
	var res wire.MadeRes
	c.call(wire.ProcCreate, &wire.CreateArgs{Where: c.at(dir, name), Mode: how, Attr: a}, &res)
	return res
}

func (c *client) mustCreate(dir nfsclient.Handle, name string) nfsclient.Handle {
	c.t.Helper()
	res := c.create(dir, name, wire.Guarded, mode(0o644))
	c.must("CREATE "+name, res.Status)
	return res.Handle.Handle
}

func (c *client) mkdir(dir nfsclient.Handle, name string) wire.MadeRes {
	c.t.Helper()
	var res wire.MadeRes
	c.call(wire.ProcMkdir, &wire.MkdirArgs{Where: c.at(dir, name), Attr: mode(0o755)}, &res)
	return res
}

func (c *client) mustMkdir(dir nfsclient.Handle, name string) nfsclient.Handle {
	c.t.Helper()
	res := c.mkdir(dir, name)
	c.must("MKDIR "+name, res.Status)
	return res.Handle.Handle
}

func (c *client) getattr(h nfsclient.Handle) (wire.Attr, nfsclient.Status) {
	c.t.Helper()
	var res wire.GetAttrRes
	c.call(wire.ProcGetAttr, &wire.HandleArgs{Handle: h}, &res)
	return res.Attr, res.Status
}

func (c *client) lookup(dir nfsclient.Handle, name string) wire.LookupRes {
	c.t.Helper()
	var res wire.LookupRes
	c.call(wire.ProcLookup, &wire.DirOp{Dir: dir, Name: name}, &res)
	return res
}

func (c *client) write(h nfsclient.Handle, off uint64, data string, how nfsclient.Stable) wire.WriteRes {
	c.t.Helper()
	var res wire.WriteRes
	c.call(wire.ProcWrite, &wire.WriteArgs{
		Handle: h, Offset: off, Count: uint32(len(data)), Stable: how, Data: wire.Inline([]byte(data)),
	}, &res)
	return res
}

func (c *client) read(h nfsclient.Handle, off uint64, n uint32) wire.ReadRes {
	c.t.Helper()
	var res wire.ReadRes
	c.call(wire.ProcRead, &wire.ReadArgs{Handle: h, Offset: off, Count: n}, &res)
	return res
}

func (c *client) commit(h nfsclient.Handle) wire.CommitRes {
	c.t.Helper()
	var res wire.CommitRes
	c.call(wire.ProcCommit, &wire.CommitArgs{Handle: h}, &res)
	return res
}

func (c *client) setattr(h nfsclient.Handle, a wire.SetAttr) wire.WccRes {
	c.t.Helper()
	var res wire.WccRes
	c.call(wire.ProcSetAttr, &wire.SetAttrArgs{Handle: h, Attr: a}, &res)
	return res
}

func (c *client) remove(dir nfsclient.Handle, name string) wire.WccRes {
	c.t.Helper()
	var res wire.WccRes
	c.call(wire.ProcRemove, &wire.DirOp{Dir: dir, Name: name}, &res)
	return res
}

func (c *client) rmdir(dir nfsclient.Handle, name string) wire.WccRes {
	c.t.Helper()
	var res wire.WccRes
	c.call(wire.ProcRmdir, &wire.DirOp{Dir: dir, Name: name}, &res)
	return res
}

func (c *client) rename(from nfsclient.Handle, a string, to nfsclient.Handle, b string) wire.RenameRes {
	c.t.Helper()
	var res wire.RenameRes
	c.call(wire.ProcRename, &wire.RenameArgs{From: c.at(from, a), To: c.at(to, b)}, &res)
	return res
}

// checkWcc wants both halves, with the change in between seen.
func (c *client) checkWcc(what string, w wire.Wcc, changed bool) {
	c.t.Helper()
	if !w.Before.Set || !w.After.Set {
		c.t.Errorf("%s: wcc data %v, %v", what, w.Before.Set, w.After.Set)
		return
	}
	if same := w.Before.Ctime == w.After.Attr.Ctime; same == changed {
		c.t.Errorf("%s: ctime changed: %v, want %v", what, !same, changed)
	}
}

// kinds runs f with handles of each kind that this process can make.
func kinds(t *testing.T, f func(t *testing.T, x Export)) {
	for _, inode := range []bool{false, true} {
		t.Run(map[bool]string{false: "native", true: "inode"}[inode], func(t *testing.T) {
			f(t, Export{InodeHandles: inode})
		})
	}
}
