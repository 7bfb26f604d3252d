//go:build knfsd

package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/posix"
)

// hostWords are the mount options that reach the guest's server from the host.
func hostWords(g *knfsd.Guest) func(proto string) string {
	return func(proto string) string {
		s, w := knfsd.TCP, "proto=tcp"
		if proto == "rdma" {
			s, w = knfsd.SIW, "proto=rdma,rdma=iwarp"
		}
		return w + fmt.Sprintf(",port=%d,mountport=%d,nlmport=%d", g.Addr(s).Port(), g.Addr(knfsd.Mountd).Port(), g.Addr(knfsd.NLM).Port())
	}
}

// TestMountLinuxServer mounts the Linux server over stock siw and over TCP.
func TestMountLinuxServer(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	guest(t, g, "chmod 1777 /export")
	for _, w := range []way{
		{"siw", "rdma", everyday, rows{inline: true, read: true, write: true, reply: true}},
		{"siw-crc", "rdma", "crc", rows{inline: true, read: true, write: true, reply: true}},
		{"siw-inline1024", "rdma", "inline=1024", rows{inline: true, read: true, write: true, reply: true}},
		{"siw-version2", "rdma", "rdmavers=2", rows{inline: true, read: true, write: true, reply: true}},
		{"siw-msgp", "rdma", "msgp=64:512", rows{inline: true, read: true, write: true, reply: true, padded: true}},
		{"siw-noddp", "rdma", "noddp", rows{inline: true, zero: true, reply: true}},
		{"siw-noddp-inline1024", "rdma", "noddp,inline=1024", rows{inline: true, zero: true, reply: true}},
		{"tcp", "tcp", everyday, rows{}},
	} {
		t.Run(w.name, func(t *testing.T) {
			if w.name == "siw-crc" || w.name == "siw-noddp" {
				knfsd.NeedAll(t)
			}
			w.run(t, g, "127.0.0.1:/export", hostWords(g))
		})
	}
}

// TestPosixOnLinuxServer runs the file system suite against the Linux server, over each way
// from the host, and in the guest as an ordinary user through its adapter.
func TestPosixOnLinuxServer(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, DiskMiB: 2048})
	guest(t, g, "chmod 1777 /export")
	for _, way := range tapWays {
		t.Run(way.name, func(t *testing.T) {
			if way.name != "iwarp" {
				knfsd.NeedAll(t)
			}
			m := mount.Mount(t, g.GuestAddr().String()+":/export", mount.Options{Words: way.words, Wrapper: inNamespace(g)})
			endWithGuest(t, g, m)
			posix.Run(t, m.Dir)
		})
	}
	t.Run("ibv as an ordinary user", func(t *testing.T) {
		knfsd.NeedAll(t)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		bin, err := g.Install(ctx, knfsd.Program{Package: module + "cmd/rdmafs"})
		if err != nil {
			t.Fatal(err)
		}
		g.GoTest(t, knfsd.Program{
			Package: module + "test/knfsd/interop",
			Args:    []string{"-test.run=^TestInsidePosix$"},
			Env:     insideEnv(g, bin),
			Wrapper: knfsd.AsTester,
		}, 10*time.Minute)
	})
}
