package session

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
)

// TestOpenWithoutKernel: a cache over an export, with no FUSE mount. Close makes safe what was written.
func TestOpenWithoutKernel(t *testing.T) {
	export := t.TempDir()
	server, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: export, Squash: nfsd.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	at, err := server.ListenTCP("127.0.0.1:0")
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
	s, err := Open(context.Background(), Config{Source: src, Options: o, Log: testlog.New(t)}, nil)
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
	if _, err := Open(context.Background(), Config{Source: source.Source{Text: "x", Host: "127.0.0.1", Export: "/none"}, Options: o}, nil); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("no such export: %v", err)
	}
}
