package rpctls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/certs"
)

// parsed reads a certificate's file.
func parsed(t *testing.T, p *certs.Pair) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestPurposesOfAuthorities: an authority below the one that is trusted signs servers and clients only if it is for them, whatever it
// writes into what it signs.
func TestPurposesOfAuthorities(t *testing.T) {
	root := certs.NewCA(t, "root")
	roots := x509.NewCertPool()
	roots.AddCert(parsed(t, root))
	authority := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	for name, c := range map[string]struct {
		between        []certs.Option // of the authority in between
		leaf           []certs.Option
		server, client string // of the error
	}{
		"nothing said":      {},
		"for all":           {between: []certs.Option{certs.Purposes(x509.ExtKeyUsageAny)}},
		"for servers":       {between: []certs.Option{certs.Purposes(x509.ExtKeyUsageServerAuth)}, client: "(CN=between) that is not for clients"},
		"for RPC's servers": {between: []certs.Option{certs.OtherPurpose(purposeServer)}, client: "(CN=between) that is not for clients"},
		"for mail": {between: []certs.Option{certs.Purposes(x509.ExtKeyUsageEmailProtection)}, leaf: []certs.Option{certs.Purposes(x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)},
			server: "(CN=between) that is not for servers", client: "(CN=between) that is not for clients"},
		"for mail, and nothing said": {between: []certs.Option{certs.Purposes(x509.ExtKeyUsageEmailProtection)},
			server: "(CN=between) that is not for servers", client: "(CN=between) that is not for clients"},
		"the leaf for clients": {leaf: []certs.Option{certs.Purposes(x509.ExtKeyUsageClientAuth)}, server: "certificate (CN=leaf) is not for servers"},
	} {
		between := root.Issue(t, "between", append(c.between, authority)...)
		leaf := between.Issue(t, "leaf", append(c.leaf, certs.For("nfs.example"))...)
		s := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{parsed(t, leaf), parsed(t, between)}}
		for side, err := range map[string]error{c.server: verifyServer(s, roots, "nfs.example"), c.client + " ": verifyClient(s, roots)} {
			if side = strings.TrimSpace(side); side == "" && err != nil || side != "" && (err == nil || !strings.Contains(err.Error(), side)) {
				t.Errorf("%s: %v, want %q", name, err, side)
			}
		}
	}
}
