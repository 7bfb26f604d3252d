package roce

import (
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

func TestProvider(t *testing.T) {
	verbstest.Run(t, func(t *testing.T) (verbs.Device, verbs.Device, netip.AddrPort) {
		return Open(Config{Local: rocetest.Loopback(t)}), Open(Config{}), netip.AddrPortFrom(rocetest.Loopback(t), 0)
	})
}
