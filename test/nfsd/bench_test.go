package nfsd

import (
	"context"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// bencher makes the same call again and again, as a transport's worker does.
type bencher struct {
	s        *Server
	q        transport.Request
	in       xdr.Reader
	out      xdr.Writer
	buf      []byte
	payloads [4]mem.Vec
	used     int
}

func newBencher(c *client) *bencher {
	b := &bencher{s: c.s, buf: make([]byte, 0, 2<<20)}
	b.q = transport.Request{
		Transport: "bench", Peer: c.peer, Prog: wire.NFSProgram, Vers: 3, Flavor: c.flavor, Sys: c.sys, Args: &b.in, Reply: &b.out,
		Lease:      func(n int) (mem.Seg, error) { return c.arena.Seg(0, n), nil },
		AddPayload: func(v transport.Payload) int { b.payloads[b.used] = v; b.used++; return b.used - 1 },
	}
	return b
}

func (b *bencher) call(t testing.TB, proc uint32, args []byte) {
	b.in.Reset(args, nil)
	b.out.Reset(b.buf, b.payloads[:])
	b.used = 0
	b.q.XID++
	b.q.Proc = proc
	if stat := b.s.Handler().Serve(context.Background(), &b.q); stat != transport.Success {
		t.Fatalf("accept_stat %d", stat)
	}
	if st := b.out.Bytes()[:4]; st[0]|st[1]|st[2]|st[3] != 0 {
		t.Fatalf("status %v", st)
	}
}

func BenchmarkProcedures(b *testing.B) {
	c := start(b, Export{Async: true})
	f := c.mustCreate(c.root, "f")
	data := make([]byte, 1<<20)
	c.write(f, 0, string(data), nfsclient.Unstable)
	for i := range 500 {
		c.mustCreate(c.root, fmt.Sprintf("file-%d", i))
	}
	for _, v := range []struct {
		name  string
		proc  uint32
		args  wire.Message
		bytes int64
	}{
		{"GETATTR", wire.ProcGetAttr, &wire.HandleArgs{Handle: f}, 0},
		{"ACCESS", wire.ProcAccess, &wire.AccessArgs{Handle: f, Access: 0x1f}, 0},
		{"LOOKUP", wire.ProcLookup, &wire.DirOp{Dir: c.root, Name: "f"}, 0},
		{"READ4K", wire.ProcRead, &wire.ReadArgs{Handle: f, Offset: 8192, Count: 4096}, 4096},
		{"READ1M", wire.ProcRead, &wire.ReadArgs{Handle: f, Count: 1 << 20}, 1 << 20},
		{"WRITE4K", wire.ProcWrite, &wire.WriteArgs{Handle: f, Count: 4096, Data: wire.Inline(data[:4096])}, 4096},
		{"WRITE1M", wire.ProcWrite, &wire.WriteArgs{Handle: f, Count: 1 << 20, Data: wire.Inline(data)}, 1 << 20},
		{"READDIR", wire.ProcReadDir, &wire.ReadDirArgs{Dir: c.root, Count: 1 << 16}, 0},
		{"READDIRPLUS", wire.ProcReadDirPlus, &wire.ReadDirPlusArgs{Dir: c.root, DirCount: 1 << 17, MaxCount: 1 << 17}, 0},
	} {
		args := encode(v.args)
		for _, user := range []uint32{0, 1001} {
			b.Run(fmt.Sprintf("%s/uid%d", v.name, user), func(b *testing.B) {
				if user != 0 && v.proc == wire.ProcWrite {
					b.Skip("not allowed to")
				}
				n := newBencher(c.as(user, user))
				b.SetBytes(v.bytes)
				b.ReportAllocs()
				for b.Loop() {
					n.call(b, v.proc, args)
				}
			})
		}
	}
}

func BenchmarkCreateRemove(b *testing.B) {
	for _, async := range []bool{true, false} {
		b.Run(fmt.Sprintf("async=%v", async), func(b *testing.B) {
			c := start(b, Export{Async: async})
			n := newBencher(c)
			mk := encode(&wire.CreateArgs{Where: wire.DirOp{Dir: c.root, Name: "f"}, Mode: wire.Guarded, Attr: mode(0o644)})
			rm := encode(&wire.DirOp{Dir: c.root, Name: "f"})
			b.ReportAllocs()
			for b.Loop() {
				n.call(b, wire.ProcCreate, mk)
				n.call(b, wire.ProcRemove, rm)
			}
		})
	}
}
