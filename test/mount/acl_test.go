package mount

import (
	"testing"

	"github.com/rdmafs/rdmafs/test/acls"
)

// TestACL: lists through a mount and at the server.
func TestACL(t *testing.T) {
	acls.Need(t)
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{acl: true})
			acls.Run(t, s.mount(t, proto, "actimeo=0").Dir, s.export)
		})
	}
}
