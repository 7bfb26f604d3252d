//go:build knfsd

package interop

import (
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
)

// inNamespace is the command that runs rdmafs in the guest's network.
func inNamespace(g *knfsd.Guest) []string { return []string{"nsenter", "--net=" + g.NetNS()} }

func roceWords(string) string {
	return fmt.Sprintf("proto=rdma,rdma=roce,port=%d,mountport=%d", 20049, 20048)
}

// TestMountLinuxServerRoCE mounts the Linux server over rxe, from a host whose
// RDMA is a UDP socket.
func TestMountLinuxServerRoCE(t *testing.T) {
	all := rows{inline: true, read: true, write: true, reply: true}
	for mtu, ways := range map[int][]way{
		1500: {
			{"rxe", "rdma", "", all},
			{"rxe-inline1024", "rdma", "inline=1024", all},
			{"rxe-noddp", "rdma", "noddp", rows{inline: true, zero: true, reply: true}},
		},
		4200: {
			{"rxe-4096", "rdma", "", all},
			{"rxe-4096-nconnect", "rdma", "nconnect=4", all},
		},
	} {
		t.Run(fmt.Sprintf("mtu %d", mtu), func(t *testing.T) {
			g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, RDMA: []knfsd.Service{knfsd.RXE}, MTU: mtu})
			guest(t, g, "chmod 1777 /export")
			for _, w := range ways {
				t.Run(w.name, func(t *testing.T) {
					s := w.run(t, g, g.GuestAddr().String()+":/export", roceWords, inNamespace(g)...)
					if w.rows.write && s.RemoteInvalidations == 0 {
						t.Error("the server invalidated no key")
					}
				})
			}
		})
	}
}
