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

// module starts the import path of our packages.
const module = "github.com/rdmafs/rdmafs/"

// TestInGuest uses the kernel's drivers for adapters, which only the guest has:
// rxe with memory windows, siw without. The rdmafs command mounts the server
// from its own machine, and verbs/ibv is held to the suite for providers and,
// below RPC-over-RDMA, to that for transports.
func TestInGuest(t *testing.T) {
	for _, c := range []struct {
		device knfsd.Service
		mounts string
	}{
		{knfsd.RXE, "^TestInside(RXE|User)$"},
		{knfsd.SIW, "^TestInsideSIW$"},
	} {
		t.Run(c.device.String(), func(t *testing.T) {
			g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{c.device}, MTU: 4200, MemoryMiB: 3072})
			t.Run("mounts", func(t *testing.T) {
				if c.device == knfsd.SIW {
					knfsd.NeedAll(t)
				}
				inside(t, g, c.mounts)
			})
			t.Run("verbs", func(t *testing.T) {
				g.GoTest(t, knfsd.Program{
					Package: module + "verbs/ibv",
					Env:     []string{"RDMAFS_IBV_ADDR=" + g.GuestAddr().String()},
				}, 10*time.Minute)
			})
			// siw's torn Reads would fail it: see verbstest.TornReads.
			if c.device == knfsd.RXE {
				t.Run("rpcrdma", func(t *testing.T) {
					g.GoTest(t, knfsd.Program{
						Package: module + "transport/rpcrdma",
						Args:    []string{"-test.run=^TestSuiteOverAdapter$"},
						Env:     []string{"RDMAFS_IBV_ADDR=" + g.GuestAddr().String()},
					}, 10*time.Minute)
				})
			}
		})
	}
}

// inside runs the tests of inside_test.go that match in the guest, with the
// rdmafs command and a tree to copy.
func inside(t *testing.T, g *knfsd.Guest, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bin, err := g.Install(ctx, knfsd.Program{Package: module + "cmd/rdmafs"})
	if err != nil {
		t.Fatal(err)
	}
	mount.CopyTree(t, mount.SourceTree(t), filepath.Join(g.Share(), "tree"), nil)
	guest(t, g, "cp -r /share/tree /tmp/tree && chmod 1777 /export")
	if err := os.RemoveAll(filepath.Join(g.Share(), "tree")); err != nil {
		t.Fatal(err)
	}
	g.GoTest(t, knfsd.Program{
		Package: module + "test/knfsd/interop",
		Args:    []string{"-test.run=" + run},
		Env:     insideEnv(g, bin, mount.TreeEnv+"=/tmp/tree"),
	}, 15*time.Minute)
}

// insideEnv is the environment of tests of this package in the guest, of which bin is the rdmafs command.
func insideEnv(g *knfsd.Guest, bin string, more ...string) []string {
	return append(more, mount.BinaryEnv+"="+bin, mount.WordsEnv+"="+os.Getenv(mount.WordsEnv), addressEnv+"="+g.GuestAddr().String())
}
