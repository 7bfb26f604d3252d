//go:build knfsd

package nfstest

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// The suite against Linux: over TCP, and over stock siw in the ways that calls
// can travel. It runs as root there; the export does not squash.
func TestKnfsd(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	root := nfsclient.Cred{}
	mountd := g.Addr(knfsd.Mountd)
	t.Run("tcp", func(t *testing.T) {
		RunAs(t, root, func(t *testing.T) nfsclient.Client {
			c, err := dialTCP(t.Context(), g.Addr(knfsd.TCP))
			if err != nil {
				t.Fatal(err)
			}
			return mount(t, c, mountd)
		})
	})
	for name, cfg := range rdmaConfigs {
		t.Run("siw, "+name, func(t *testing.T) {
			dev := iwarp.Open(iwarp.Config{})
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			})
			cfg.Device, cfg.Addr = dev, g.Addr(knfsd.SIW)
			RunAs(t, root, func(t *testing.T) nfsclient.Client {
				return mount(t, reconnect.New(rpcrdma.NewDialer(cfg), reconnect.Config{Server: cfg.Addr.String(), Soft: true}), mountd)
			})
		})
	}
}

// rpcbind, in each of its versions, says where mountd is; mountd's refusal of another
// path lists the exports. The guest's ports are mapped to where
// the host reaches them.
func TestKnfsdRpcbind(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{}})
	dial := func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
		switch to.Port() {
		case 111:
			to = g.Addr(knfsd.Rpcbind)
		case 20048:
			to = g.Addr(knfsd.Mountd)
		default:
			t.Errorf("rpcbind gave port %d", to.Port())
		}
		return dialTCP(ctx, to)
	}
	for name, addr := range map[string]string{"version 2": "192.0.2.1", "version 4": "2001:db8::1"} {
		t.Run(name, func(t *testing.T) {
			nfs, err := dialTCP(t.Context(), g.Addr(knfsd.TCP))
			if err != nil {
				t.Fatal(err)
			}
			cf := nfs3.Config{Host: "guest", Addr: netip.MustParseAddr(addr), Export: "/none", Caller: nfs, Dial: dial,
				Cred: nfsclient.Cred{}, Log: testlog.New(t)}
			var me *nfs3.MountError
			_, err = nfs3.Mount(t.Context(), cf)
			if !errors.As(err, &me) || me.Failure != nfs3.NoExport && me.Failure != nfs3.NotPermitted || !strings.Contains(err.Error(), "server exports: /export") {
				t.Errorf("mount of what is not exported: %v", err)
			}
			cf.Export = "/export"
			c, err := nfs3.Mount(t.Context(), cf)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
