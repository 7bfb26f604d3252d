package rpctls

import (
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNames: what a certificate is for, by RFC 9289 section 5.2.1.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		names, addrs, host string
		refused            string // what the error says
	}{
		{"nfs.example", "", "nfs.example", ""},
		{"a.example,nfs.example", "", "NFS.Example.", ""},
		{"nfs.example.", "", "nfs.example", ""},
		{"", "10.0.0.1,fd00::1", "fd00:0::1", ""},
		{"", "10.0.0.1", "10.0.0.1", ""},
		{"", "10.0.0.1", "::ffff:10.0.0.1", ""},
		{"", "fe80::1", "fe80::1%eth0", ""},
		{"nfs.example", "", "other.example", "is for nfs.example, not for other.example"},
		{"nfs.example", "", "x.nfs.example", "not for x.nfs.example"},
		{"nfs.example", "", "nfs", "not for nfs"},
		{"*.example", "", "nfs.example", "names with * do not count"},
		{"*.example", "", "*.example", "names with * do not count"},
		{"10.0.0.1", "", "10.0.0.1", "not for 10.0.0.1"}, // a dNSName is no iPAddress
		{"nfs.example", "10.0.0.1", "10.0.0.2", "is for nfs.example, 10.0.0.1, not for 10.0.0.2"},
		{"", "", "nfs.example", "no subjectAltName"}, // the common name does not count
		{"", "", "cn.example", "no subjectAltName"},
		{"", "", "", "no subjectAltName"},
	} {
		cert := &x509.Certificate{}
		cert.Subject.CommonName = "cn.example"
		if c.names != "" {
			cert.DNSNames = strings.Split(c.names, ",")
		}
		if c.addrs != "" {
			for a := range strings.SplitSeq(c.addrs, ",") {
				cert.IPAddresses = append(cert.IPAddresses, net.ParseIP(a))
			}
		}
		err := verifyName(cert, c.host)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%q, %q under %q: %v", c.names, c.addrs, c.host, err)
		}
	}
}

// TestLongNames: a name that whoever answers has chosen fills no log.
func TestLongNames(t *testing.T) {
	cert := &x509.Certificate{}
	cert.Subject.CommonName = "x" + strings.Repeat("ö", 100_000)
	err := explainChain("server", cert, x509.UnknownAuthorityError{})
	if s := err.Error(); len(s) > 1000 || !utf8.ValidString(s) || !strings.Contains(s, "(CN=xöö") || !strings.Contains(s, "ö…)") {
		t.Errorf("%d bytes: %.300s", len(s), s)
	}
}
