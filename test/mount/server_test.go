package mount

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/rights"
	"github.com/rdmafs/rdmafs/test/ringtest"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/roce"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
)

func TestMain(m *testing.M) {
	rights.Worker()
	Isolate()
	off := func() {}
	if strings.Contains(os.Getenv(WordsEnv), "fuse=ring") {
		var err error
		if off, err = ringtest.SwitchOn(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	off()
	if races := RemoveBinary(); races != "" {
		fmt.Fprintf(os.Stderr, "data races in the daemon:\n%s", races)
		code = 1
	}
	os.Exit(code)
}

type serverOptions struct {
	lossy bool
	// acl serves access control lists.
	acl    bool
	faults *nfsd.Faults
	// clockAhead is by how many seconds the server's clock is ahead.
	clockAhead int64
	// grace is the server's for locks, after it has crashed.
	grace time.Duration
	// mode of the exported directory; 0o755 when 0.
	mode os.FileMode
	// squashRoot makes the server treat root as the anonymous user.
	squashRoot bool
	// squashAll makes the server treat everybody so.
	squashAll bool
	// secure makes the server refuse locks to ports that need no privileges.
	secure bool
	// tls is how connections by TCP are encrypted.
	tls *nfsd.TLS
	// encrypted has the export demand that they are.
	encrypted bool
	// kerberos has the server take calls of RPCSEC_GSS, and security the export's
	// flavors.
	kerberos *nfsd.Kerberos
	security []uint32
	rdma     rpcrdma.ServerConfig
	// versions are those of NFS; 0 is version 3, and all of them if WordsEnv has version 4.
	versions nfsd.Versions
	// delegations gives them to clients of version 4.
	delegations bool
	// roce has the server speak RoCEv2 instead of iWARP.
	roce bool
	// host and client, if valid, are the addresses of a server that speaks
	// RoCEv2, and of its client, in place of two loopback addresses.
	host, client netip.Addr
}

// server is an embedded server for one test.
type server struct {
	*nfsd.Server
	export    string
	tcp, rdma netip.AddrPort
	// client is what a mount over RoCE connects from; it is not valid for a
	// server that speaks iWARP.
	client netip.Addr
}

func startServer(t testing.TB, o serverOptions) *server {
	t.Helper()
	s := &server{export: t.TempDir()}
	if o.mode == 0 {
		o.mode = 0o755
	}
	if err := os.Chmod(s.export, o.mode); err != nil {
		t.Fatal(err)
	}
	if o.versions == 0 && strings.Contains(os.Getenv(WordsEnv), "vers=4") {
		o.versions = nfsd.V3 | nfsd.V41 | nfsd.V42
	}
	squash := nfsd.SquashNone
	switch {
	case o.squashAll:
		squash = nfsd.SquashAll
	case o.squashRoot:
		squash = nfsd.SquashRoot
	}
	var err error
	s.Server, err = nfsd.New(nfsd.Config{
		Exports: []nfsd.Export{{Dir: s.export, Squash: squash, Async: true, Lossy: o.lossy, ACL: o.acl, Secure: o.secure, ClockAhead: o.clockAhead, Security: o.security, Encrypted: o.encrypted}},
		Faults:  o.faults,
		Grace:   o.grace, Versions: o.versions, Delegations: o.delegations,
		TLS:      o.tls,
		Kerberos: o.kerberos,
	})
	if err != nil {
		t.Fatal(err)
	}
	host := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	var dev verbs.Device
	switch {
	case o.host.IsValid():
		host, s.client = o.host, o.client
		dev = roce.Open(roce.Config{})
	case o.roce:
		host, s.client = rocetest.Loopback(t), rocetest.Loopback(t)
		dev = roce.Open(roce.Config{})
	default:
		dev = iwarp.Open(iwarp.Config{})
	}
	at := netip.AddrPortFrom(host, 0).String()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("server: %v", err)
		}
		if err := dev.Close(); err != nil {
			t.Errorf("server's device: %v", err)
		}
	})
	if s.tcp, err = s.ListenTCP(at); err != nil {
		t.Fatal(err)
	}
	if o.delegations && o.rdma.Backward == 0 {
		o.rdma.Backward = 4
	}
	if s.rdma, err = s.ListenRDMA(dev, at, o.rdma); err != nil {
		t.Fatal(err)
	}
	return s
}

// words are the mount options that reach the server.
func (s *server) words(proto, more string) string {
	port := s.tcp.Port()
	if proto == "rdma" {
		port = s.rdma.Port()
	}
	w := fmt.Sprintf("proto=%s,port=%d,mountport=%d,nlmport=%d", proto, port, s.tcp.Port(), s.tcp.Port())
	if proto == "rdma" && s.client.IsValid() {
		w += ",rdma=roce,srcaddr=" + s.client.String()
	}
	for _, further := range []string{more, os.Getenv(WordsEnv)} {
		if further != "" {
			w += "," + further
		}
	}
	return w
}

func (s *server) source() string { return s.tcp.Addr().String() + ":" + s.export }

func (s *server) mount(t testing.TB, proto, more string) *Mounted {
	t.Helper()
	return Mount(t, s.source(), Options{Words: s.words(proto, more)})
}

// copyTree exercises a mount, copies a tree in, and compares it on the server and
// through a fresh mount, which it returns with the tree's place.
func (s *server) copyTree(t *testing.T, words string) (m *Mounted, from string) {
	t.Helper()
	m = s.mount(t, "rdma", words)
	Exercise(t, m.Dir)
	from = filepath.Join(SourceTree(t), "http")
	CopyTree(t, from, filepath.Join(m.Dir, "tree"), nil)
	m.Umount(t)
	SameTree(t, filepath.Join(s.export, "tree"), from)
	m = s.mount(t, "rdma", words)
	SameTree(t, filepath.Join(m.Dir, "tree"), from)
	return m, from
}
