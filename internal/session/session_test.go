package session

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
)

// served is a configuration for a server that serves for the length of the test.
func served(t *testing.T) (cfg Config, at netip.AddrPort) {
	t.Helper()
	_, cfg, at = serving(t)
	return cfg, at
}

// serving is served, and the server.
func serving(t *testing.T) (server *nfsd.Server, cfg Config, at netip.AddrPort) {
	t.Helper()
	export := t.TempDir()
	server, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: export, Squash: nfsd.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	at, err = server.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o, err := options.Parse([]string{fmt.Sprintf("proto=tcp,port=%d,mountport=%d", at.Port(), at.Port())})
	if err != nil {
		t.Fatal(err)
	}
	src, err := source.Parse("127.0.0.1:" + export)
	if err != nil {
		t.Fatal(err)
	}
	return server, Config{Source: src, Options: o, Log: testlog.New(t)}, at
}

// TestBuffers: the cache's buffers keep to Config.Buffers, and without it to what
// there is room for.
func TestBuffers(t *testing.T) {
	cfg, _ := served(t)
	for _, c := range []struct{ buffers, want int }{{0, providers.PoolBytes}, {6 << 20, 6 << 20}, {1, 4 << 20}, {1 << 40, providers.PoolBytes}} {
		cfg.Buffers = c.buffers
		s, err := Open(context.Background(), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.BufferBytes(); got != c.want {
			t.Errorf("with %d: %d bytes, want %d", c.buffers, got, c.want)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenWithoutKernel: a cache over an export, with no FUSE mount. Close makes safe what was written.
func TestOpenWithoutKernel(t *testing.T) {
	cfg, at := served(t)
	s, err := Open(context.Background(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.How() != "tcp" || s.Server() != at || s.Stats().Calls == 0 {
		t.Errorf("%s to %s, %d calls", s.How(), s.Server(), s.Stats().Calls)
	}
	if s.Cache().Root() == nil {
		t.Error("the cache has no root")
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	_ = s.Stats() // a daemon may be asked while its mount ends
	if _, err := Open(context.Background(), Config{Source: source.Source{Text: "x", Host: "127.0.0.1", Export: "/none"}, Options: cfg.Options}, nil); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("no such export: %v", err)
	}
}
