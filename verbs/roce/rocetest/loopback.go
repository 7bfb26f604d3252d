// Package rocetest finds addresses for tests of RoCE devices on one host.
//
// It owns nothing: an address is free when it is found, and there are so many
// that two tests at the same time hardly find the same one.
package rocetest

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// Loopback is an address of this host whose RoCE port is not in use. Each device
// of a test needs one of its own.
func Loopback(t testing.TB) netip.Addr {
	t.Helper()
	for range 100 {
		a := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(256)), byte(1 + rand.IntN(250))})
		if s, err := udp.Open(a); err == nil {
			s.Close()
			return a
		}
	}
	t.Fatal("no loopback address has UDP port 4791 free")
	return netip.Addr{}
}
