package nfs4

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// TestPseudoFlavor: of RPCSEC_GSS only Kerberos is known, with its OID encoded or not.
func TestPseudoFlavor(t *testing.T) {
	for want, f := range map[uint32]wire.Flavor{
		390005: {Flavor: wire.RPCSecGSS, OID: oidKrb5, Service: 3},
		390003: {Flavor: wire.RPCSecGSS, OID: "\x06\x09" + oidKrb5, Service: 1},
		1:      {Flavor: wire.AuthSys},
		0:      {},
	} {
		if got := pseudoFlavor(&f); got != want {
			t.Errorf("%v: %d, want %d", f, got, want)
		}
	}
	for _, f := range []wire.Flavor{{Flavor: wire.RPCSecGSS, OID: oidKrb5, Service: 4}, {Flavor: wire.RPCSecGSS, OID: "\x2a\x03", Service: 2}} {
		if got := pseudoFlavor(&f); got != wire.RPCSecGSS {
			t.Errorf("%v: %d", f, got)
		}
	}
}
