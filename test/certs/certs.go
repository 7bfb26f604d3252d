// Package certs makes authorities and certificates for tests, as PEM files in a directory.
//
// No goroutines, no locks.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Pair is a certificate and its key, and the files with them.
type Pair struct {
	Cert, Key string
	leaf      *x509.Certificate
	key       *ecdsa.PrivateKey
}

// Option changes a certificate before it is signed.
type Option func(*x509.Certificate)

// For gives it names, addresses among them.
func For(names ...string) Option {
	return func(c *x509.Certificate) {
		for _, n := range names {
			if ip := net.ParseIP(n); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, n)
			}
		}
	}
}

// Expired has it end an hour ago, NotYet begin in an hour.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }

// NotYet has it begin in an hour.
func NotYet(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }

// Purposes restricts it to some.
func Purposes(of ...x509.ExtKeyUsage) Option {
	return func(c *x509.Certificate) { c.ExtKeyUsage = of }
}

// OtherPurpose restricts it to one that crypto/x509 does not know.
func OtherPurpose(oid asn1.ObjectIdentifier) Option {
	return func(c *x509.Certificate) { c.UnknownExtKeyUsage = append(c.UnknownExtKeyUsage, oid) }
}

// NewCA makes an authority.
func NewCA(t testing.TB, name string) *Pair { return must(t)(Authority(t.TempDir(), name)) }

// Issue makes a certificate that ca has signed.
func (ca *Pair) Issue(t testing.TB, name string, with ...Option) *Pair {
	return must(t)(ca.Sign(t.TempDir(), name, with...))
}

// SelfSigned makes a certificate that nobody else has signed.
func SelfSigned(t testing.TB, name string, with ...Option) *Pair {
	return must(t)(sign(t.TempDir(), nil, name, with...))
}

func must(t testing.TB) func(*Pair, error) *Pair {
	return func(p *Pair, err error) *Pair {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// Authority makes an authority, with its files in dir.
func Authority(dir, name string) (*Pair, error) {
	return sign(dir, nil, name, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
}

// Sign makes a certificate that ca has signed, with its files in dir.
func (ca *Pair) Sign(dir, name string, with ...Option) (*Pair, error) {
	return sign(dir, ca, name, with...)
}

func sign(dir string, ca *Pair, name string, with ...Option) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, change := range with {
		change(c)
	}
	parent, signer := c, key
	if ca != nil {
		parent, signer = ca.leaf, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	p := &Pair{key: key, Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
	if p.leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// Name is the common name.
func (p *Pair) Name() string { return p.leaf.Subject.CommonName }
