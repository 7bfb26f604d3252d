//go:build knfsd

package interop

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
)

// TestVerbs holds verbs/ibv to the suite for providers, over the kernel's
// drivers: rxe has memory windows, siw has none.
func TestVerbs(t *testing.T) {
	for _, dev := range []knfsd.Service{knfsd.RXE, knfsd.SIW} {
		t.Run(dev.String(), func(t *testing.T) {
			g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{dev}, NoServer: true, MTU: 4200})
			g.GoTest(t, knfsd.Program{
				Package: "github.com/rdmafs/rdmafs/verbs/ibv",
				Env:     []string{"RDMAFS_IBV_ADDR=" + g.GuestAddr().String()},
			}, 10*time.Minute)
		})
	}
}
