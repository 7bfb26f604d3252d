//go:build knfsd

package interop

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
)

// TestVisible has TestInsideVisible run in the guest, with the document that has its table.
func TestVisible(t *testing.T) {
	knfsd.NeedAll(t)
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{}, DiskMiB: 256})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bin, err := g.Install(ctx, knfsd.Program{Package: module + "cmd/rdmafs"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.Share(), "semantics.md"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	g.GoTest(t, knfsd.Program{
		Package: module + "test/knfsd/interop",
		Args:    []string{"-test.run=^TestInsideVisible$"},
		Env:     insideEnv(g, bin, documentEnv+"=/share/semantics.md"),
	}, 5*time.Minute)
}
