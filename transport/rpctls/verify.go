package rpctls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Key purposes of RFC 9289 section 5.2.1: certificates may carry these alone, which crypto/x509 does not know.
var (
	purposeClient = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 33}
	purposeServer = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 34}
)

// role is one side of a connection: what its certificate, and those above it, must be for, if they say what they are for.
type role struct {
	name  string
	usual x509.ExtKeyUsage
	rpc   asn1.ObjectIdentifier
	cure  string
}

var (
	servers = role{"server", x509.ExtKeyUsageServerAuth, purposeServer, "its extended key usage, if it has one, must include serverAuth or id-kp-rpcTLSServer"}
	clients = role{"client", x509.ExtKeyUsageClientAuth, purposeClient, ""}
)

// verifyServer checks the certificate of a server that was contacted under a name or an address.
func verifyServer(s *tls.ConnectionState, roots *x509.CertPool, host string) error {
	cert, err := servers.verify(s, roots)
	if err != nil {
		return err
	}
	return verifyName(cert, host)
}

// verifyClient checks the certificate of a client. Its names say nothing: RFC 9289 section 5.2.1.
func verifyClient(s *tls.ConnectionState, roots *x509.CertPool) error {
	_, err := clients.verify(s, roots)
	return err
}

// verify checks who has signed the certificate of that side, and for what (RFC 5280 section 6). crypto/x509 does not know the
// purposes of RFC 9289, and so is not asked for any.
func (side *role) verify(s *tls.ConnectionState, roots *x509.CertPool) (*x509.Certificate, error) {
	if len(s.PeerCertificates) == 0 {
		return nil, &Error{What: fmt.Sprintf("the %s shows no certificate", side.name)}
	}
	cert, between := s.PeerCertificates[0], x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	chains, err := cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return nil, explainChain(side.name, cert, err)
	}
	var unfit *x509.Certificate
	for _, chain := range chains {
		i := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return !side.fits(c) })
		if i < 0 {
			return cert, nil
		}
		unfit = chain[i]
	}
	if unfit == cert {
		return nil, &Error{What: fmt.Sprintf("the %s's certificate (%s) is not for %ss", side.name, nameOf(cert), side.name), Cure: side.cure}
	}
	return nil, &Error{What: fmt.Sprintf("the %s's certificate (%s) is signed by an authority (%s) that is not for %ss", side.name, nameOf(cert), nameOf(unfit), side.name), Cure: side.cure}
}

// fits reports whether a certificate is for the side: it names no purpose, any, or one of two. Of an authority it holds for what it
// signs, as with crypto/x509 and others: one for mail alone does not make servers.
func (side *role) fits(cert *x509.Certificate) bool {
	if len(cert.ExtKeyUsage)+len(cert.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(cert.ExtKeyUsage, side.usual) || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny) ||
		slices.ContainsFunc(cert.UnknownExtKeyUsage, side.rpc.Equal)
}

// verifyName checks that a certificate is for host: a dNSName, which has no wildcard, or an iPAddress (RFC 9289 section
// 5.2.1). The common name does not count.
func verifyName(cert *x509.Certificate, host string) error {
	var names []string
	found := false
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.WithZone("").Unmap()
		for _, ip := range cert.IPAddresses {
			has, _ := netip.AddrFromSlice(ip)
			found = found || has.Unmap() == addr
		}
	} else {
		host = strings.TrimSuffix(host, ".")
		for _, name := range cert.DNSNames {
			found = found || !strings.Contains(name, "*") && strings.EqualFold(strings.TrimSuffix(name, "."), host)
		}
	}
	if found {
		return nil
	}
	names = append(names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range names {
		if strings.Contains(name, "*") {
			return &Error{What: fmt.Sprintf("the server's certificate is for %s, not for %s: names with * do not count (RFC 9289 section 5.2.1)", strings.Join(names, ", "), host),
				Cure: "the server needs a certificate with its own name as a subjectAltName"}
		}
	}
	if len(names) == 0 {
		return &Error{What: fmt.Sprintf("the server's certificate (%s) has no subjectAltName, and so is not for %s", nameOf(cert), host),
			Cure: "the server needs a certificate with its name as a subjectAltName of type dNSName, or its address as iPAddress"}
	}
	return &Error{What: fmt.Sprintf("the server's certificate is for %s, not for %s", strings.Join(names, ", "), host),
		Cure: "mount the server under a name that is in its certificate (addr= says at which address it is)"}
}
