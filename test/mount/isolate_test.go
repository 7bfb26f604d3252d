package mount

import (
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// TestIsolated: no mount of these tests is in the namespace that they were started
// from, of which others on the machine may make copies.
func TestIsolated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a mount namespace")
	}
	s := startServer(t, serverOptions{})
	m := s.mount(t, "tcp", "")
	here, ok, err := mounttable.Find(m.Dir)
	if err != nil || !ok {
		t.Fatalf("mounted: %v, %v", ok, err)
	}
	outside, err := mounttable.Of(os.Getppid())
	if err != nil || len(outside) == 0 {
		t.Fatalf("the mount table of process %d: %d mounts, %v", os.Getppid(), len(outside), err)
	}
	if dir, there := mounttable.DirOf(here.Device, outside); there {
		t.Errorf("mounted outside too, at %s", dir)
	}
}
