package nfsd

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfstest"
	"github.com/rdmafs/rdmafs/test/realm"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
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
	return v.mountBy(t, c, SecSys)
}

// mountBy is mount through a caller whose calls are of a flavor.
func (v *served) mountBy(t testing.TB, c transport.Caller, flavor uint32) *nfs3.Client {
	t.Helper()
	cl, err := nfs3.Mount(context.Background(), nfs3.Config{
		Host: "loopback", Addr: v.tcp.Addr(), Export: v.s.exports[0].Path, Caller: c, MountPort: v.tcp.Port(), Flavor: flavor,
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

// secured is a realm and an acceptor of it. The suite's users, whoever runs it and a
// stranger, have tickets.
type secured struct {
	r        *realm.Realm
	conf     *krb5.Conf
	kerberos *Kerberos
}

func startSecured(t *testing.T) *secured {
	t.Helper()
	k := &secured{r: realm.Start(t)}
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	users := map[string]uint32{"alice": uid, "stranger": 12345}
	for name, id := range users {
		k.r.AddUser(name, "secret")
		cache := k.r.Path(fmt.Sprint("cc", id))
		k.r.Kinit(name, "secret", cache, 0)
		if uid == 0 {
			k.r.Give(int(id), int(id), cache)
		}
	}
	acceptor, err := krb5.NewAcceptor(k.r.AddService(realm.Service), "nfs")
	if err != nil {
		t.Fatal(err)
	}
	k.kerberos = &Kerberos{Acceptor: acceptor, Users: func(p string) (transport.AuthSys, bool) {
		name, _ := strings.CutSuffix(p, "@"+realm.Name)
		id, ok := users[name]
		if id != uid {
			return transport.AuthSys{UID: id, GID: id, GIDs: []uint32{777}}, ok
		}
		return transport.AuthSys{UID: id, GID: gid}, ok
	}}
	if k.conf, err = krb5.LoadConf(k.r.Conf()); err != nil {
		t.Fatal(err)
	}
	return k
}

// client configures the client's half.
func (k *secured) client(service rpcsecgss.Service) rpcsecgss.Config {
	uid := uint32(os.Getuid())
	tickets := krb5.NewClient(krb5.Config{Conf: k.conf, Host: "localhost", CCache: "FILE:" + k.r.Path("cc%{uid}"), Mounter: uid, Self: uid})
	return rpcsecgss.Config{Service: service, Initiator: func(uid uint32) rpcsecgss.Initiator { return tickets.User(uid) }}
}

// TestSuiteWithKerberos is the suite with each service of RPCSEC_GSS.
func TestSuiteWithKerberos(t *testing.T) {
	k := startSecured(t)
	for _, service := range []rpcsecgss.Service{rpcsecgss.None, rpcsecgss.Integrity, rpcsecgss.Privacy} {
		for _, way := range []string{"tcp", "rdma"} {
			t.Run(service.String()+"/"+way, func(t *testing.T) {
				flavor := SecKrb5 - 1 + uint32(service)
				v := serve(t, Config{
					Exports:  []Export{{Dir: t.TempDir(), Squash: SquashNone, Async: true, Security: []uint32{flavor}}},
					Kerberos: k.kerberos,
				})
				nfstest.Run(t, func(t *testing.T) nfsclient.Client {
					return v.mountBy(t, v.callSecured(t, way, k.client(service)), flavor)
				})
			})
		}
	}
}

func (v *served) callSecured(t testing.TB, way string, cf rpcsecgss.Config) transport.Caller {
	t.Helper()
	var d transport.Dialer
	if way == "tcp" {
		var err error
		if d, err = tcp.NewDialer(tcp.Config{Addr: v.tcp}); err != nil {
			t.Fatal(err)
		}
	} else {
		dev := iwarp.Open(iwarp.Config{})
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error("closing the client's device:", err)
			}
		})
		d = rpcrdma.NewDialer(rpcrdma.DialerConfig{Device: dev, Addr: v.rdma})
	}
	return reconnect.New(rpcsecgss.NewDialer(d, cf), reconnect.Config{Retrans: -1})
}
