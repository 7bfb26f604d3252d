package rdmafs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// server is an embedded server with an empty export.
type server struct {
	*nfsd.Server
	dir       string
	tcp, rdma netip.AddrPort
}

// serve starts a server for the length of the test.
func serve(t testing.TB, changes ...func(*nfsd.Config)) *server {
	t.Helper()
	v := &server{dir: t.TempDir()}
	if err := os.Chmod(v.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cfg := nfsd.Config{Exports: []nfsd.Export{{Dir: v.dir, Path: "/export", Squash: nfsd.SquashNone, Async: true}}}
	for _, change := range changes {
		change(&cfg)
	}
	var err error
	if v.Server, err = nfsd.New(cfg); err != nil {
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

// failing has a server carry out faults.
func failing(f nfsd.Faults) func(*nfsd.Config) { return func(c *nfsd.Config) { c.Faults = &f } }

var networks = []string{"tcp", "iwarp"}

const loopback = "127.0.0.1:/export"

// options are those for a network, and words if any.
func (v *server) options(t testing.TB, network, words string) *Options {
	o := fmt.Sprintf("proto=tcp,port=%d,mountport=%d,", v.tcp.Port(), v.tcp.Port())
	if network == "iwarp" {
		o = fmt.Sprintf("rdma=iwarp,port=%d,mountport=%d,", v.rdma.Port(), v.tcp.Port())
	}
	return &Options{Mount: o + words, Log: testlog.New(t)}
}

// open opens the export, and closes it when the test ends.
func (v *server) open(t testing.TB, network string) *FS {
	t.Helper()
	f, err := Open(context.Background(), loopback, v.options(t, network, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Error("Close:", err)
		}
	})
	return f
}
