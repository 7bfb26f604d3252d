package nfsd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

func TestVerifierChangesOverRestart(t *testing.T) {
	c := start(t, Export{})
	f := c.mustCreate(c.root, "f")
	w := c.write(f, 0, "x", nfsclient.Unstable)
	if w.Committed != nfsclient.Unstable {
		t.Errorf("committed %d", w.Committed)
	}
	if v := c.commit(f).Verifier; v != w.Verifier {
		t.Error("COMMIT shows another verifier than WRITE")
	}
	c2 := c.restart(Export{})
	if c2.commit(f).Verifier == w.Verifier {
		t.Error("the verifier outlived the server")
	}
}

func TestCrashLosesUnstableWrites(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		x.Lossy = true
		c := start(t, x)
		f := c.mustCreate(c.root, "f")
		c.must("stable WRITE", c.write(f, 0, "0123456789", nfsclient.FileSync).Status)
		u := c.write(f, 2, "abc", nfsclient.Unstable)
		c.must("unstable WRITE", u.Status)
		c.checkWcc("unstable WRITE", u.Wcc, true)
		c.must("unstable WRITE", c.write(f, 12, "zz", nfsclient.Unstable).Status)

		// It is seen by everyone, but not on disk.
		if r := c.read(f, 0, 100); string(r.Data.Data) != "01abc56789\x00\x00zz" || !r.EOF || r.Attr.Attr.Size != 14 {
			t.Errorf("READ: %q, eof %v", r.Data.Data, r.EOF)
		}
		if r := c.read(f, 3, 2); string(r.Data.Data) != "bc" || r.EOF {
			t.Errorf("READ in the middle: %q, eof %v", r.Data.Data, r.EOF)
		}
		if l := c.lookup(c.root, "f"); l.Attr.Attr.Size != 14 {
			t.Errorf("LOOKUP: size %d", l.Attr.Attr.Size)
		}
		for _, e := range c.list(c.root, true, 4096, nil) {
			if e.Name == "f" && e.Attr.Attr.Size != 14 {
				t.Errorf("READDIRPLUS: size %d", e.Attr.Attr.Size)
			}
		}
		path := filepath.Join(c.s.exports[0].Dir, "f")
		if b, err := os.ReadFile(path); err != nil || string(b) != "0123456789" {
			t.Errorf("on disk: %q, %v", b, err)
		}

		if err := c.s.Crash(); err != nil {
			t.Fatal(err)
		}
		if r := c.read(f, 0, 100); string(r.Data.Data) != "0123456789" || r.Attr.Attr.Size != 10 {
			t.Errorf("after the crash: %q", r.Data.Data)
		}
		cm := c.commit(f)
		c.must("COMMIT", cm.Status)
		if cm.Verifier == u.Verifier {
			t.Error("the verifier did not change although writes were lost")
		}

		// Committed, it survives.
		u = c.write(f, 2, "abc", nfsclient.Unstable)
		if cm = c.commit(f); cm.Verifier != u.Verifier {
			t.Error("COMMIT shows another verifier than WRITE")
		}
		if err := c.s.Crash(); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "01abc56789" {
			t.Errorf("on disk after COMMIT and a crash: %q, %v", b, err)
		}

		// A truncation comes after the writes before it.
		c.write(f, 0, strings.Repeat("x", 20), nfsclient.Unstable)
		c.must("truncate", c.setattr(f, size(5)).Status)
		if r := c.read(f, 0, 100); string(r.Data.Data) != "xxxxx" {
			t.Errorf("after a truncation: %q", r.Data.Data)
		}
		// A removed file's writes are not kept.
		c.write(f, 0, "y", nfsclient.Unstable)
		c.must("REMOVE", c.remove(c.root, "f").Status)
		// Orderly, nothing is lost.
		g := c.mustCreate(c.root, "g")
		c.write(g, 0, "kept", nfsclient.Unstable)
		c2 := c.restart(x)
		if r := c2.read(g, 0, 10); string(r.Data.Data) != "kept" {
			t.Errorf("after an orderly stop: %q", r.Data.Data)
		}
	})
}

func TestSyncFailure(t *testing.T) {
	var fail atomic.Bool
	c := start(t, Export{Async: true}, func(cfg *Config) {
		cfg.Faults = &Faults{Sync: func() error {
			if fail.Load() {
				return unix.EIO
			}
			return nil
		}}
	})
	f := c.mustCreate(c.root, "f")
	w := c.write(f, 0, "x", nfsclient.Unstable)
	fail.Store(true)
	c.want("COMMIT", c.commit(f).Status, nfsclient.ErrIO)
	c.want("stable WRITE", c.write(f, 0, "x", nfsclient.DataSync).Status, nfsclient.ErrIO)
	fail.Store(false)
	cm := c.commit(f)
	c.must("COMMIT", cm.Status)
	if cm.Verifier == w.Verifier {
		t.Error("the verifier did not change although an fsync failed")
	}
}

// TestFaults orders faults for calls of a client over TCP.
func TestFaults(t *testing.T) {
	type order struct {
		proc   uint32
		action Action
		after  bool
	}
	var next atomic.Pointer[order]
	var replayed atomic.Int32
	hook := func(after bool) func(context.Context, Event) Action {
		return func(_ context.Context, e Event) Action {
			if e.Replayed {
				replayed.Add(1)
			}
			o := next.Load()
			if o != nil && e.Prog == wire.NFSProgram && e.Proc == o.proc && o.after == after && next.CompareAndSwap(o, nil) {
				return o.action
			}
			return Proceed
		}
	}
	v := serve(t, Config{
		Exports: []Export{{Dir: t.TempDir(), Squash: SquashNone, Async: true, Lossy: true}},
		Faults:  &Faults{Before: hook(false), After: hook(true)},
	})
	for _, rdma := range []bool{false, true} {
		caller := func() transport.Caller {
			if rdma {
				return v.callRDMA(t)
			}
			return v.callTCP(t, v.tcp)
		}
		cl := v.mount(t, caller())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cr := nfsclient.Cred{UID: uint32(os.Geteuid())}
		root, _ := cl.Root()

		// The reply is lost with the connection; the resent call is answered
		// from the cache.
		next.Store(&order{wire.ProcMkdir, Drop, true})
		replayed.Store(0)
		if _, err := cl.Mkdir(ctx, cr, root, "d", nfsclient.SetAttr{}); err != nil {
			t.Errorf("rdma %v: MKDIR whose reply was lost: %v", rdma, err)
		}
		if replayed.Load() != 1 || next.Load() != nil {
			t.Errorf("rdma %v: %d replies replayed", rdma, replayed.Load())
		}
		// The call is lost before it is carried out.
		next.Store(&order{wire.ProcRmdir, Drop, false})
		if _, err := cl.Rmdir(ctx, cr, root, "d"); err != nil || next.Load() != nil {
			t.Errorf("rdma %v: RMDIR that was lost: %v", rdma, err)
		}
		// A crash loses what was written, and every connection.
		made, err := cl.Create(ctx, cr, root, "f", nfsclient.SetAttr{}, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		buf, err := mem.NewArena(4096)
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.Register(buf); err != nil {
			t.Fatal(err)
		}
		w, err := cl.Write(ctx, cr, made.Handle, nil, 0, mem.Vec{buf.Seg(0, 4096)}, nfsclient.Unstable)
		if err != nil {
			t.Fatal(err)
		}
		next.Store(&order{wire.ProcCommit, Crash, false})
		verf, _, err := cl.Commit(ctx, cr, made.Handle, 0, 0)
		if err != nil || verf == w.Verifier || next.Load() != nil {
			t.Errorf("rdma %v: COMMIT over a crash: %v, same verifier %v", rdma, err, verf == w.Verifier)
		}
		if a, err := cl.GetAttr(ctx, cr, made.Handle); err != nil || a.Size != 0 {
			t.Errorf("rdma %v: after the crash: %v, size %d", rdma, err, a.Size)
		}
		if _, err := cl.Remove(ctx, cr, root, "f"); err != nil {
			t.Error(err)
		}
		if err := cl.Unregister(buf); err != nil {
			t.Error(err)
		}
		if err := cl.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := buf.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
	if n := v.s.Stats().Crashes; n != 2 {
		t.Errorf("%d crashes", n)
	}
}

// TestHang: a call that hangs ends with its context, unanswered.
func TestHang(t *testing.T) {
	hung := make(chan struct{})
	var on atomic.Bool
	c := start(t, Export{}, func(cfg *Config) {
		cfg.Faults = &Faults{Before: func(_ context.Context, e Event) Action {
			if on.CompareAndSwap(true, false) {
				close(hung)
				return Hang
			}
			return Proceed
		}}
	})
	on.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan transport.AcceptStat)
	args := encode(&wire.HandleArgs{Handle: c.root})
	runCall := func() {
		stat, _ := c.raw(ctx, 1, wire.NFSProgram, 3, wire.ProcGetAttr, args)
		done <- stat
	}
	go runCall()
	<-hung
	cancel()
	if stat := <-done; stat != transport.NoReply {
		t.Errorf("accept_stat %d", stat)
	}
}

func TestGetPort(t *testing.T) {
	v := serve(t, Config{Exports: []Export{{Dir: t.TempDir()}}})
	c := newClient(t, v.s)
	for _, q := range []struct{ prog, proto, want uint32 }{
		{wire.NFSProgram, wire.ProtoTCP, uint32(v.tcp.Port())}, {wire.MountProgram, wire.ProtoTCP, uint32(v.tcp.Port())},
		{nlm.Program, wire.ProtoTCP, uint32(v.tcp.Port())},
		{wire.NFSProgram, wire.ProtoUDP, 0}, {nlm.Program, wire.ProtoUDP, 0}, {nlm.NSMProgram, wire.ProtoTCP, 0},
	} {
		var res wire.GetPortRes
		c.program(wire.RpcbindProgram, 2, wire.PortmapGetPort, &wire.GetPortArgs{Program: q.prog, Version: 3, Proto: q.proto}, &res)
		if res.Port != q.want {
			t.Errorf("GETPORT of %d by %d: %d, want %d", q.prog, q.proto, res.Port, q.want)
		}
	}
	if len(v.s.Stats().RDMA) != 1 || !bytes.HasPrefix([]byte(v.rdma.String()), []byte("127.0.0.1:")) {
		t.Error("RDMA listener")
	}
}
