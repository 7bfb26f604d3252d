//go:build guest && cgo

package ibv

import (
	"net/netip"
	"os"
	"strings"
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

// flaws are those of the kernel's drivers, in Linux 6.12.
func flaws(t *testing.T, c Config) []verbstest.Flaw {
	t.Helper()
	d := open(t, c)
	defer d.Close()
	if strings.HasPrefix(d.Caps().Device, "rxe") {
		return []verbstest.Flaw{verbstest.LooseWindows}
	}
	return []verbstest.Flaw{verbstest.TornReads}
}

func TestProvider(t *testing.T) {
	at := adapterAddr(t)
	for name, keys := range map[string]Keys{"auto": AutoKeys, "region": RegionKeys} {
		t.Run(name, func(t *testing.T) {
			c := Config{Peer: at, Keys: keys}
			verbstest.Run(t, func(t *testing.T) (client, server verbs.Device, addr netip.AddrPort) {
				return open(t, c), open(t, c), at
			}, flaws(t, c)...)
		})
	}
}
