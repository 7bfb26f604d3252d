package iwarp

import (
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

func TestProvider(t *testing.T) {
	for _, x := range []struct {
		name           string
		client, server Config
		addr           string
	}{
		{"plain", Config{}, Config{}, "127.0.0.1:0"},
		{"crc", Config{CRC: true}, Config{}, "127.0.0.1:0"},
		{"mss", Config{AlignToMSS: true}, Config{AlignToMSS: true, CRC: true}, "[::1]:0"},
	} {
		t.Run(x.name, func(t *testing.T) {
			verbstest.Run(t, func(*testing.T) (verbs.Device, verbs.Device, netip.AddrPort) {
				return Open(x.client), Open(x.server), netip.MustParseAddrPort(x.addr)
			})
		})
	}
}
