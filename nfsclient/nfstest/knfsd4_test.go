//go:build knfsd

package nfstest

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// TestKnfsd4 is the suite against Linux with NFSv4.1 and 4.2, over TCP, and over stock siw in the ways
// that calls can travel.
func TestKnfsd4(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	root := nfsclient.Cred{}
	for version, minor := range minors {
		t.Run(version+", tcp", func(t *testing.T) {
			RunAs(t, root, func(t *testing.T) nfsclient.Client {
				return mount4(t, dialHard(t, g.Addr(knfsd.TCP)), minor, "/export")
			})
		})
		for name, cfg := range rdmaConfigs {
			t.Run(version+", siw, "+name, func(t *testing.T) {
				dev := iwarp.Open(iwarp.Config{})
				t.Cleanup(func() {
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
				})
				cfg.Device, cfg.Addr = dev, g.Addr(knfsd.SIW)
				RunAs(t, root, func(t *testing.T) nfsclient.Client {
					return mount4(t, reconnect.New(rpcrdma.NewDialer(cfg), reconnect.Config{Server: cfg.Addr.String()}), minor, "/export")
				})
			})
		}
	}
}
