package mount

import (
	"testing"

	"github.com/rdmafs/rdmafs/test/randomops"
)

// TestRandomOps: random operations on a mount, buffered, direct and through mappings, give what they give on
// a local directory, and leave the same on the server and for another mount.
func TestRandomOps(t *testing.T) {
	if RandomOpsInside(t) {
		return
	}
	for _, way := range []struct{ name, proto, words string }{
		{"iwarp", "rdma", ""},
		{"tcp", "tcp", "nconnect=2"},
		{"small", "rdma", "rsize=4096,wsize=8192,inline=1024"},
		{"noac", "tcp", "noac"},
	} {
		t.Run(way.name, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			m := s.mount(t, way.proto, way.words)
			local := RandomOps(t, m.Dir, RandomOpsOptions{Few: 4000, All: 200_000, Test: "TestRandomOps"})
			m.Umount(t)
			for _, dir := range []string{s.export, s.mount(t, "tcp", "").Dir} {
				if err := randomops.Same(dir, local); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
