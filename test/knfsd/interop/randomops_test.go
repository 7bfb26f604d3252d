//go:build knfsd

package interop

import (
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/randomops"
)

// TestRandomOpsOnLinuxServer has random operations done on mounts of the Linux server, over TCP and over iWARP, and
// compares what they leave by way of the other.
func TestRandomOpsOnLinuxServer(t *testing.T) {
	if mount.RandomOpsInside(t) {
		return
	}
	knfsd.NeedAll(t)
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, DiskMiB: 2048})
	mounted := func(t *testing.T, words string) *mount.Mounted {
		m := mount.Mount(t, g.GuestAddr().String()+":/export", mount.Options{Words: words, Wrapper: inNamespace(g)})
		endWithGuest(t, g, m)
		return m
	}
	for n, way := range tapWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			guest(t, g, "cd /export && rm -rf -- * && chmod 755 .")
			m := mounted(t, way.words)
			// Each takes the emulated machine some milliseconds.
			local := mount.RandomOps(t, m.Dir, mount.RandomOpsOptions{Few: 20_000, All: 20_000, Test: "TestRandomOpsOnLinuxServer"})
			m.Umount(t)
			if err := randomops.Same(mounted(t, tapWays[1-n].words).Dir, local); err != nil {
				t.Error(err)
			}
		})
	}
}
