//go:build guest && cgo

package ibv

import (
	"net/netip"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

// adapterAddr is an address of this machine on an RDMA device.
func adapterAddr(t *testing.T) netip.AddrPort {
	t.Helper()
	a, err := netip.ParseAddr(os.Getenv("RDMAFS_IBV_ADDR"))
	if err != nil {
		t.Fatalf("RDMAFS_IBV_ADDR: %v", err)
	}
	return netip.AddrPortFrom(a, 0)
}

func open(t *testing.T, c Config) verbs.Device {
	t.Helper()
	d, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestProvider(t *testing.T) {
	at := adapterAddr(t)
	for name, keys := range map[string]Keys{"auto": AutoKeys, "region": RegionKeys} {
		t.Run(name, func(t *testing.T) {
			verbstest.Run(t, func(t *testing.T) (client, server verbs.Device, addr netip.AddrPort) {
				c := Config{Peer: at, Keys: keys}
				return open(t, c), open(t, c), at
			})
		})
	}
}
