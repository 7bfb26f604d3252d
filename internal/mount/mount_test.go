package mount

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// serve starts a server of a new directory, over RDMA and TCP.
func serve(t *testing.T) (export string, tcp, rdma netip.AddrPort) {
	t.Helper()
	export = t.TempDir()
	s, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: export, Squash: nfsd.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if tcp, err = s.ListenTCP("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if rdma, err = s.ListenRDMA(iwarp.Open(iwarp.Config{}), "127.0.0.1:0", rpcrdma.ServerConfig{}); err != nil {
		t.Fatal(err)
	}
	return export, tcp, rdma
}

func config(t *testing.T, export, words string) session.Config {
	t.Helper()
	o, err := options.Parse([]string{words})
	if err != nil {
		t.Fatal(err)
	}
	src, err := source.Parse("127.0.0.1:" + export)
	if err != nil {
		t.Fatal(err)
	}
	return session.Config{Source: src, Options: o, Log: testlog.New(t)}
}

// TestAt: a program mounts and serves an export itself. The mount cannot be
// ended while a file is open; then everything written is safe, and the
// directory is as before.
func TestAt(t *testing.T) {
	o := options.Default()
	if err := Check(&o); err != nil {
		t.Skip(err)
	}
	export, tcp, rdma := serve(t)
	for _, words := range []string{
		fmt.Sprintf("proto=rdma,rdma=iwarp,port=%d,mountport=%d,nlmport=%d", rdma.Port(), tcp.Port(), tcp.Port()),
		fmt.Sprintf("proto=tcp,port=%d,mountport=%d,nlmport=%d", tcp.Port(), tcp.Port(), tcp.Port()),
	} {
		dir := t.TempDir()
		m, err := At(context.Background(), config(t, export, words), dir)
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		if e, ok, err := mounttable.Find(dir); err != nil || !ok || e.Source != "127.0.0.1:"+export {
			t.Errorf("the mount table has %+v, %v, %v", e, ok, err)
		}
		f, err := os.Create(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(words); err != nil {
			t.Error(err)
		}
		if err := m.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("closed with an open file: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, ok, err := mounttable.Find(dir); ok || err != nil {
			t.Errorf("still mounted: %v, %v", ok, err)
		}
		if b, err := os.ReadFile(filepath.Join(export, "file")); string(b) != words || err != nil {
			t.Errorf("%s: the server has %q, %v", words, b, err)
		}
	}
}

// TestAtFails: what cannot be mounted leaves nothing behind, and the error says
// why.
func TestAtFails(t *testing.T) {
	o := options.Default()
	if err := Check(&o); err != nil {
		t.Skip(err)
	}
	export, tcp, _ := serve(t)
	cfg := config(t, export, fmt.Sprintf("proto=tcp,port=%d,mountport=%d,nlmport=%d", tcp.Port(), tcp.Port(), tcp.Port()))
	none := filepath.Join(t.TempDir(), "none")
	if _, err := At(context.Background(), cfg, none); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a directory that does not exist: %v", err)
	}
	cfg.Source.Export = "/not/exported"
	if _, err := At(context.Background(), cfg, t.TempDir()); err == nil || !strings.Contains(err.Error(), "/not/exported") {
		t.Errorf("a directory that is not exported: %v", err)
	}
}
