//go:build guest && cgo

package rpcrdma_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpctest"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/ibv"
)

// overAdapter is both ends on the adapter that leads to an address of this
// machine.
func overAdapter(keys ibv.Keys) devices {
	return func(t *testing.T) (theirs, ours verbs.Device, at netip.AddrPort) {
		a, err := netip.ParseAddr(os.Getenv("RDMAFS_IBV_ADDR"))
		if err != nil {
			t.Fatalf("RDMAFS_IBV_ADDR: %v", err)
		}
		at = netip.AddrPortFrom(a, 0)
		open := func() verbs.Device {
			d, err := ibv.Open(t.Context(), ibv.Config{Peer: at, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return open(), open(), at
	}
}

func TestSuiteOverAdapter(t *testing.T) {
	for _, version := range []uint32{rpcrdma.Version1, rpcrdma.Version2} {
		for _, inline := range []int{1024, 4096, 65536} {
			t.Run(fmt.Sprintf("version %d, inline %d", version, inline), func(t *testing.T) {
				rpctest.Run(t, callerOver(version, inline, 1, false, overAdapter(ibv.AutoKeys)))
			})
		}
	}
	t.Run("keys of regions", func(t *testing.T) {
		rpctest.Run(t, callerOver(rpcrdma.Version1, 4096, 1, false, overAdapter(ibv.RegionKeys)))
	})
}
