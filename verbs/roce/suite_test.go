package roce

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

// loopback is an address of this host whose port nobody uses: other tests run
// at the same time.
func loopback(t testing.TB) netip.Addr {
	t.Helper()
	for range 100 {
		a := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(256)), byte(1 + rand.IntN(250))})
		if s, err := udp.Open(a); err == nil {
			s.Close()
			return a
		}
	}
	t.Fatal("no loopback address has port 4791 free")
	return netip.Addr{}
}

func TestProvider(t *testing.T) {
	verbstest.Run(t, func(t *testing.T) (verbs.Device, verbs.Device, netip.AddrPort) {
		return Open(Config{Local: loopback(t)}), Open(Config{}), netip.AddrPortFrom(loopback(t), 0)
	})
}
