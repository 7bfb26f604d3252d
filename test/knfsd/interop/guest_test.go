//go:build knfsd

package interop

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// inside runs the tests of inside_test.go that match in the guest, with the
// rdmafs command and a tree to copy.
func inside(t *testing.T, g *knfsd.Guest, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bin, err := g.Install(ctx, knfsd.Program{Package: "github.com/rdmafs/rdmafs/cmd/rdmafs"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(g.Share(), "tree")); err != nil {
		mount.CopyTree(t, mount.SourceTree(t), filepath.Join(g.Share(), "tree"), nil)
		guest(t, g, "cp -r /share/tree /tmp/tree && chmod 1777 /export")
	}
	g.GoTest(t, knfsd.Program{
		Package: "github.com/rdmafs/rdmafs/test/knfsd/interop",
		Args:    []string{"-test.run=" + run},
		Env: []string{
			mount.BinaryEnv + "=" + bin, mount.TreeEnv + "=/tmp/tree",
			"RDMAFS_INTEROP_ADDR=" + g.GuestAddr().String(),
		},
	}, 10*time.Minute)
}

// TestMountInGuest mounts the Linux server from its own machine, through each of
// the two devices.
func TestMountInGuest(t *testing.T) {
	for _, c := range []struct {
		device knfsd.Service
		tests  string
	}{
		{knfsd.RXE, "^TestInside(RXE|User)$"},
		{knfsd.SIW, "^TestInsideSIW$"},
	} {
		t.Run(c.device.String(), func(t *testing.T) {
			g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{c.device}, MTU: 4200, MemoryMiB: 3072})
			inside(t, g, c.tests)
		})
	}
}
