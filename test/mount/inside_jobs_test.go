//go:build guest

package mount

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestInsideLinuxJobs counts the calls of Linux' own client for the jobs of TestJobs, by the same server.
func TestInsideLinuxJobs(t *testing.T) {
	s := startServer(t, serverOptions{versions: nfsd.V42})
	prepare(t, s.export)
	dir := t.TempDir()
	words := fmt.Sprintf("vers=4.2,proto=tcp,port=%d,actimeo=600", s.tcp.Port())
	if out, err := exec.Command("mount", "-t", "nfs", "-o", words, s.source(), dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	sofar := func() calls {
		ops, err := workload.KernelOperations(dir)
		if err != nil {
			t.Error(err)
		}
		return ops
	}
	for n, got := range count(t, dir, s.export, sofar) {
		if want := jobs[n].linux; got != want {
			t.Errorf("%s: %s, want %s", jobs[n].name, got, want)
		}
	}
}
