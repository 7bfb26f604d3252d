package rpctls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Files are PEM files. They are read for each connection.
type Files struct {
	// CA has the certificates of the authorities that are trusted; "" for those of this host.
	CA string
	// Cert has a certificate, and those between it and its authority; Key its private key. Both or none.
	Cert, Key string
}

// roots are the authorities that are trusted.
func (f *Files) roots() (*x509.CertPool, error) {
	if f.CA == "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, &Error{What: fmt.Sprintf("the authorities that this host trusts: %v", err), Cure: cureNoCA, Err: err}
		}
		return pool, nil
	}
	b, err := readBounded(f.CA)
	if err != nil {
		return nil, unread("certificates of authorities", "xprtsec_ca= names them; without it, x509.truststore in /etc/tlshd.conf", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, &Error{What: fmt.Sprintf("no certificate in %s", f.CA), Cure: "it must be a file in PEM, with lines -----BEGIN CERTIFICATE-----"}
	}
	return pool, nil
}

// certificate is what this side shows; nil if it has none.
func (f *Files) certificate() (*tls.Certificate, error) {
	if f.Cert == "" && f.Key == "" {
		return nil, nil
	}
	cert, err := readBounded(f.Cert)
	if err != nil {
		return nil, unread("certificate of this host", "xprtsec_cert= names it; without it, x509.certificate in /etc/tlshd.conf", err)
	}
	key, err := readBounded(f.Key)
	if err != nil {
		return nil, unread("private key of this host", "this process must be able to read it", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &Error{What: fmt.Sprintf("%s and %s: %v", f.Cert, f.Key, err), Cure: "they must be in PEM, and belong to each other; the key must not be encrypted", Err: err}
	}
	return &pair, nil
}

// maxFile bounds what is read of a file: the authorities of a distribution are 250 KB.
const maxFile = 4 << 20

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return os.ReadFile(path)
}
