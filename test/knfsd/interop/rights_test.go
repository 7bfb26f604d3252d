//go:build knfsd

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
)

// TestRightsOnLinuxServer has TestInsideRights and TestInsideSubmount run in the guest, where what the server
// exports can be looked at directly.
func TestRightsOnLinuxServer(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bin, err := g.Install(ctx, knfsd.Program{Package: module + "cmd/rdmafs"})
	if err != nil {
		t.Fatal(err)
	}
	g.GoTest(t, knfsd.Program{
		Package: module + "test/knfsd/interop",
		Args:    []string{"-test.run=^TestInside(Rights|Submount)$"},
		Env:     insideEnv(g, bin),
	}, 15*time.Minute)
}
