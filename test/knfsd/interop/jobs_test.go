//go:build knfsd

package interop

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
)

// TestLinuxJobs has Linux' own client count what its commonest jobs cost with version 4.2, beside which docs/performance.md sets
// those of rdmafs.
func TestLinuxJobs(t *testing.T) {
	knfsd.NeedAll(t)
	g := knfsd.StartTest(t, knfsd.Config{})
	g.GoTest(t, knfsd.Program{Package: module + "test/mount", Args: []string{"-test.run=^TestInsideLinuxJobs$"}}, 5*time.Minute)
}
