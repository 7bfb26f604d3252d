//go:build knfsd

package interop

import (
	"fmt"
	"testing"

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
		{"siw", "rdma", "", rows{inline: true, read: true, write: true, reply: true}},
		{"siw-crc", "rdma", "crc", rows{inline: true, read: true, write: true, reply: true}},
		{"siw-inline1024", "rdma", "inline=1024", rows{inline: true, read: true, write: true, reply: true}},
		{"siw-version2", "rdma", "rdmavers=2", rows{inline: true, read: true, write: true, reply: true}},
		{"siw-msgp", "rdma", "msgp=64:512", rows{inline: true, read: true, write: true, reply: true, padded: true}},
		{"siw-noddp", "rdma", "noddp", rows{inline: true, zero: true, reply: true}},
		{"siw-noddp-inline1024", "rdma", "noddp,inline=1024", rows{inline: true, zero: true, reply: true}},
		{"tcp", "tcp", "", rows{}},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, g, "127.0.0.1:/export", hostWords(g)) })
	}
}

// TestPosixOnLinuxServer runs the file system suite against the Linux server.
func TestPosixOnLinuxServer(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}, DiskMiB: 2048})
	guest(t, g, "chmod 1777 /export")
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			m := mount.Mount(t, "127.0.0.1:/export", mount.Options{Words: hostWords(g)(proto)})
			endWithGuest(t, g, m)
			posix.Run(t, m.Dir)
		})
	}
}
