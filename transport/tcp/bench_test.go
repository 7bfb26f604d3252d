package tcp_test

import (
	"context"
	"net"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// still answers reads from memory that it leases and does not fill, and takes
// writes without looking at them.
type still struct{}

func (still) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	if q.Proc == 1 {
		q.Args.Data(4 << 20)
		return transport.Success
	}
	if n := q.Args.Uint32(); n > 0 {
		s, err := q.Lease(int(n))
		if err != nil {
			return transport.SystemErr
		}
		q.Reply.Payload(q.AddPayload(mem.Vec{s}))
	}
	return transport.Success
}

func benchmark(b *testing.B, parallel bool, proc uint32, n int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tcp.Serve(ctx, ln, still{}, tcp.ServerConfig{}) }()
	d, err := tcp.NewDialer(tcp.Config{Addr: ln.Addr().(*net.TCPAddr).AddrPort()})
	if err != nil {
		b.Fatal(err)
	}
	c := reconnect.New(d, reconnect.Config{})
	a, err := mem.NewArena(max(n, 1) * 64)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = c.Close()
		stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
		_ = a.Close()
	}()
	call := func() *transport.Call {
		c := &transport.Call{Prog: 1, Vers: 1, Proc: proc, Cred: new(transport.AuthSys), ReplyMax: 8}
		v := []mem.Vec{{a.Seg(0, n)}}
		switch {
		case proc == 1:
			c.Send = v
			c.Args = func(w *xdr.Writer) { w.Payload(0) }
		case n > 0:
			c.Recv = v
			c.Args = func(w *xdr.Writer) { w.Uint32(uint32(n)) }
			c.Result = func(r *xdr.Reader) error { r.Payload(0); return r.End() }
		default:
			c.Args = func(w *xdr.Writer) { w.Uint32(0) }
		}
		return c
	}
	if err := c.Call(b.Context(), call()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(n))
	b.ReportAllocs()
	if !parallel {
		one := call()
		for b.Loop() {
			if err := c.Call(context.Background(), one); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		one := call()
		for pb.Next() {
			if err := c.Call(context.Background(), one); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkNull(b *testing.B)            { benchmark(b, false, 0, 0) }
func BenchmarkNullParallel(b *testing.B)    { benchmark(b, true, 0, 0) }
func BenchmarkRead1M(b *testing.B)          { benchmark(b, false, 0, 1<<20) }
func BenchmarkRead1MParallel(b *testing.B)  { benchmark(b, true, 0, 1<<20) }
func BenchmarkWrite1M(b *testing.B)         { benchmark(b, false, 1, 1<<20) }
func BenchmarkWrite1MParallel(b *testing.B) { benchmark(b, true, 1, 1<<20) }
