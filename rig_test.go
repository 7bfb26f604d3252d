package rdmafs

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// server is an embedded server with an empty export.
type server struct {
	*nfsd.Server
	dir       string
	faults    nfsd.Faults
	tcp, rdma netip.AddrPort
}

// serve starts a server for the length of the test.
func serve(t testing.TB, faults ...nfsd.Faults) *server {
	t.Helper()
	v := &server{dir: t.TempDir()}
	if len(faults) > 0 {
		v.faults = faults[0]
	}
	if err := os.Chmod(v.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var err error
	v.Server, err = nfsd.New(nfsd.Config{
		Exports: []nfsd.Export{{Dir: v.dir, Path: "/export", Squash: nfsd.SquashNone, Async: true}},
		Faults:  &v.faults,
	})
	if err != nil {
		t.Fatal(err)
	}
	dev := iwarp.Open(iwarp.Config{})
	t.Cleanup(func() {
		if err := errors.Join(v.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	if v.tcp, err = v.ListenTCP("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if v.rdma, err = v.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{}); err != nil {
		t.Fatal(err)
	}
	return v
}

var networks = []string{"tcp", "iwarp"}

// open opens the export, and closes it when the test ends.
func (v *server) open(t testing.TB, network string) *FS {
	t.Helper()
	ctx := context.Background()
	d, err := tcp.NewDialer(tcp.Config{Addr: v.tcp})
	if err != nil {
		t.Fatal(err)
	}
	var dialer transport.Dialer = d
	if network == "iwarp" {
		dev := iwarp.Open(iwarp.Config{})
		t.Cleanup(func() { dev.Close() })
		dialer = rpcrdma.NewDialer(rpcrdma.DialerConfig{Device: dev, Addr: v.rdma})
	}
	caller := reconnect.New(dialer, reconnect.Config{Timeo: time.Minute, Retrans: 2})
	cl, err := nfs3.Mount(ctx, nfs3.Config{Host: "loopback", Addr: v.tcp.Addr(), Export: "/export", Caller: caller, MountPort: v.tcp.Port(),
		Dial: func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
			d, err := tcp.NewDialer(tcp.Config{Addr: to})
			return reconnect.New(d, reconnect.Config{Retrans: -1}), err
		}})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := bufpool.New(bufpool.Config{Limit: 16 << 20, Register: cl.Register, Unregister: cl.Unregister})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(cl, pool, cache.Config{RSize: 1 << 20, WSize: 1 << 20, AcRegMin: 3 * time.Second, AcRegMax: time.Minute, AcDirMin: 30 * time.Second, AcDirMax: time.Minute, ReadAhead: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f := newFS(c, ownCred(), false, func(ctx context.Context) error {
		return errors.Join(c.Close(ctx), pool.Close(), cl.Close(ctx), dialer.Close())
	})
	t.Cleanup(func() {
		if err := f.Close(ctx); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error("Close:", err)
		}
	})
	return f
}

var _ = nfsclient.OK
