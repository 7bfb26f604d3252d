package rpctls_test

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// still answers reads from memory that it leases and does not fill, and takes
// writes without looking at them.
type still struct{}

func (still) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	switch q.Proc {
	case 1:
		q.Args.Data(payload)
	case 2:
		s, err := q.Lease(int(q.Args.Uint32()))
		if err != nil {
			return transport.SystemErr
		}
		q.Reply.Payload(q.AddPayload(mem.Vec{s}))
	}
	return transport.Success
}

// benchmark makes calls of n bytes, one after the other, over a link in clear text or by TLS. Processor time is that of both ends.
func benchmark(b *testing.B, encrypted bool, proc uint32, n int) {
	ca := certs.NewCA(b, "authority")
	cert := ca.Issue(b, "server", certs.For(host))
	server := &rpctls.Server{Files: rpctls.Files{Cert: cert.Cert, Key: cert.Key}}
	client := &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: ca.Cert}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	sc, cc := tcp.ServerConfig{}, tcp.Config{Addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	if encrypted {
		sc.Upgrade, cc.Upgrade = server.Upgrade, client.Upgrade
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	runServe := func() { served <- tcp.Serve(ctx, ln, still{}, sc) }
	go runServe()
	d, err := tcp.NewDialer(cc)
	if err != nil {
		b.Fatal(err)
	}
	l, err := d.Dial(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	a, err := mem.NewArena(n)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = l.Close()
		stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
		_ = a.Close()
	}()
	c := &transport.Call{Prog: program, Vers: version, Proc: proc, Cred: new(transport.AuthSys), ReplyMax: 8}
	if v := []mem.Vec{{a.Seg(0, n)}}; proc == 1 {
		c.Send = v
		c.Args = func(w *xdr.Writer) { w.Payload(0) }
	} else {
		c.Recv = v
		c.Args = func(w *xdr.Writer) { w.Uint32(uint32(n)) }
		c.Result = func(r *xdr.Reader) error { r.Payload(0); return r.End() }
	}
	b.SetBytes(int64(n))
	b.ReportAllocs()
	before, xid := used(b), uint32(0)
	for b.Loop() {
		xid++
		if err := l.Exchange(context.Background(), xid, c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((used(b)-before)/float64(b.N), "cpu-µs/op")
}

// used is this process' processor time, in microseconds.
func used(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}

func BenchmarkCalls(b *testing.B) {
	for _, way := range []string{"sys", "tls"} {
		for _, c := range []struct {
			name string
			proc uint32
			n    int
		}{{"read4K", 2, 4 << 10}, {"write4K", 1, 4 << 10}, {"read1M", 2, 1 << 20}, {"write1M", 1, 1 << 20}} {
			b.Run(way+"/"+c.name, func(b *testing.B) { benchmark(b, way == "tls", c.proc, c.n) })
		}
	}
}
