//go:build knfsd

package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/test/acls"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// TestACLOnLinuxServer: access control lists of the Linux server, each way seen by the other;
// a long list comes by a reply chunk, once the server has refused to send it without one.
func TestACLOnLinuxServer(t *testing.T) {
	acls.Need(t)
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}, DiskMiB: 512})
	guest(t, g, "chmod 1777 /export")
	dirs := map[string]string{}
	for _, proto := range []string{"rdma", "tcp"} {
		m := mount.Mount(t, "127.0.0.1:/export", mount.Options{Words: hostWords(g)(proto) + ",actimeo=0"})
		endWithGuest(t, g, m)
		dirs[proto] = m.Dir
	}
	for proto, other := range map[string]string{"rdma": "tcp", "tcp": "rdma"} {
		t.Run(proto, func(t *testing.T) {
			here := filepath.Join(dirs[proto], proto)
			if err := os.Mkdir(here, 0o777); err != nil {
				t.Fatal(err)
			}
			acls.Run(t, here, filepath.Join(dirs[other], proto))
		})
	}
}
