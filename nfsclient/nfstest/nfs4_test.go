package nfstest

import (
	"crypto/rand"
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// minors are the minor versions of NFSv4 to test, by name.
var minors = map[string]uint32{"4.1": 1, "4.2": 2}

// dialHard is dialTCP for a mount that does not give up.
func dialHard(t *testing.T, to netip.AddrPort) transport.Caller {
	t.Helper()
	d, err := tcp.NewDialer(tcp.Config{Addr: to})
	if err != nil {
		t.Fatal(err)
	}
	return reconnect.New(d, reconnect.Config{Server: to.String()})
}

// mount4 makes a client with an owner of its own that makes its calls over nfs.
func mount4(t *testing.T, nfs transport.Caller, minor uint32, export string) *nfs4.Client {
	t.Helper()
	return mountBack4(t, nfs, nil, minor, export)
}

// mountBack4 is mount4 with a back channel, if back is not nil.
func mountBack4(t *testing.T, nfs transport.Caller, back *backChannel, minor uint32, export string) *nfs4.Client {
	t.Helper()
	return mountAs4(t, nfs, back, minor, export, "nfstest "+rand.Text())
}

// mountAs4 is mountBack4 for an owner that may have had another client.
func mountAs4(t *testing.T, nfs transport.Caller, back *backChannel, minor uint32, export, owner string) *nfs4.Client {
	t.Helper()
	cf := nfs4.Config{Host: "localhost", Export: export, Minor: minor, Caller: nfs, Owner: []byte(owner), Log: testlog.New(t)}
	if back != nil {
		cf.Callbacks, cf.Binder = back.service, &back.binder
	}
	_, _ = rand.Read(cf.Verifier[:]) // never fails
	c, err := nfs4.Mount(t.Context(), cf)
	if err != nil {
		if cerr := cf.Caller.Close(); cerr != nil {
			t.Error(cerr)
		}
		t.Fatal(err)
	}
	return c
}

// TestGanesha4 is the suite against nfs-ganesha, which squashes nobody.
func TestGanesha4(t *testing.T) {
	inGanesha(t, func(t *testing.T, _ *ganesha) {
		for name, minor := range minors {
			t.Run(name, func(t *testing.T) {
				RunAs(t, nfsclient.Cred{}, func(t *testing.T) nfsclient.Client {
					return mount4(t, dialHard(t, netip.MustParseAddrPort(ganeshaAddr)), minor, "/export/sub")
				})
			})
		}
	})
}
