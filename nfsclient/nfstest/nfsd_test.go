package nfstest

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// serve exports a new directory over TCP, and over RDMA if there is a device,
// for the length of the test.
func serve(t *testing.T, dev verbs.Device) (viaTCP, viaRDMA netip.AddrPort) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: dir, Path: "/export", Squash: nfsd.SquashNone, Async: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if viaTCP, err = s.ListenTCP("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if dev != nil {
		if viaRDMA, err = s.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	return viaTCP, viaRDMA
}

func dialTCP(_ context.Context, to netip.AddrPort) (transport.Caller, error) {
	d, err := tcp.NewDialer(tcp.Config{Addr: to})
	if err != nil {
		return nil, err
	}
	return reconnect.New(d, reconnect.Config{Server: to.String(), Soft: true}), nil
}

// mount makes a client that makes its NFS calls over nfs.
func mount(t *testing.T, nfs transport.Caller, mountd netip.AddrPort) nfsclient.Client {
	t.Helper()
	c, err := nfs3.Mount(t.Context(), nfs3.Config{Host: "localhost", Addr: mountd.Addr(), Export: "/export", Caller: nfs,
		Dial: dialTCP, MountPort: mountd.Port(), Cred: nfsclient.Cred{}, Log: testlog.New(t)})
	if err != nil {
		if cerr := nfs.Close(); cerr != nil {
			t.Error(cerr)
		}
		t.Fatal(err)
	}
	return c
}

func TestNFSDOverTCP(t *testing.T) {
	at, _ := serve(t, nil)
	Run(t, func(t *testing.T) nfsclient.Client {
		c, err := dialTCP(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return mount(t, c, at)
	})
}

// rdmaConfigs make calls take every plan: inline buffers so small that most calls
// are long, the default ones, and no direct placement.
var rdmaConfigs = map[string]rpcrdma.DialerConfig{
	"inline 1024":         {InlineSend: 1024, InlineRecv: 1024},
	"inline 4096":         {InlineSend: 4096, InlineRecv: 4096},
	"no direct placement": {NoDDP: true},
}

func TestNFSDOverRDMA(t *testing.T) {
	for name, cfg := range rdmaConfigs {
		t.Run(name, func(t *testing.T) {
			dev := iwarp.Open(iwarp.Config{})
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			})
			mountd, at := serve(t, dev)
			cfg.Device, cfg.Addr = dev, at
			Run(t, func(t *testing.T) nfsclient.Client {
				return mount(t, reconnect.New(rpcrdma.NewDialer(cfg), reconnect.Config{Server: at.String(), Soft: true}), mountd)
			})
		})
	}
}
