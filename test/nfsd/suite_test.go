package nfsd

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfstest"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// served is a server on loopback, by TCP and RDMA.
type served struct {
	s         *Server
	tcp, rdma netip.AddrPort
}

func serve(t testing.TB, cfg Config) *served {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dev := iwarp.Open(iwarp.Config{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
		if err := dev.Close(); err != nil {
			t.Error("closing the device:", err)
		}
	})
	v := &served{s: s}
	if v.tcp, err = s.ListenTCP("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if v.rdma, err = s.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{}); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *served) callTCP(t testing.TB, to netip.AddrPort) transport.Caller {
	t.Helper()
	d, err := tcp.NewDialer(tcp.Config{Addr: to})
	if err != nil {
		t.Fatal(err)
	}
	return reconnect.New(d, reconnect.Config{Retrans: -1})
}

func (v *served) callRDMA(t testing.TB) transport.Caller {
	t.Helper()
	dev := iwarp.Open(iwarp.Config{})
	// Cleanups run last to first: before this one, the suite closes its client.
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error("closing the client's device:", err)
		}
	})
	return reconnect.New(rpcrdma.NewDialer(rpcrdma.DialerConfig{Device: dev, Addr: v.rdma}), reconnect.Config{Retrans: -1})
}

// mount mounts the first export through c, which the client takes.
func (v *served) mount(t testing.TB, c transport.Caller) *nfs3.Client {
	t.Helper()
	cl, err := nfs3.Mount(context.Background(), nfs3.Config{
		Host: "loopback", Addr: v.tcp.Addr(), Export: v.s.exports[0].Path, Caller: c, MountPort: v.tcp.Port(),
		Dial: func(_ context.Context, to netip.AddrPort) (transport.Caller, error) { return v.callTCP(t, to), nil },
		Cred: nfsclient.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())},
	})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// TestSuite is the suite of every client against every server, over both
// transports, both kinds of handles, and lossy.
func TestSuite(t *testing.T) {
	for _, x := range []struct {
		name string
		rdma bool
		x    Export
	}{
		{"tcp", false, Export{}},
		{"rdma", true, Export{}},
		{"inode", false, Export{InodeHandles: true}},
		{"lossy", true, Export{Lossy: true}},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.x.Dir, x.x.Squash, x.x.Async = t.TempDir(), SquashNone, true
			v := serve(t, Config{Exports: []Export{x.x}})
			nfstest.Run(t, func(t *testing.T) nfsclient.Client {
				if x.rdma {
					return v.mount(t, v.callRDMA(t))
				}
				return v.mount(t, v.callTCP(t, v.tcp))
			})
		})
	}
}
