package providers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// errNoTLSOverRDMA: the options are those of a mount by TCP that is looked at by RDMA.
var errNoTLSOverRDMA = errors.New("xprtsec= asks for TLS, and RFC 9289 has no form for RDMA")

// encryption is what xprtsec= asks for: nil for none. host is the server as the user has named it.
func encryption(o *options.Options, host string) (*rpctls.Client, error) {
	if !o.Encrypted() {
		return nil, nil
	}
	c := &rpctls.Client{Host: host, Program: wire.NFSProgram, Version: wire.NFSVersion, Files: rpctls.Files{CA: o.XprtCA, Cert: o.XprtCert, Key: o.XprtKey}}
	if o.Minors() != nil {
		c.Version = 4
	}
	own := o.XprtSec == "mtls"
	if c.Files.CA == "" || own && c.Files.Cert == "" {
		tlshd, err := readTLSHD(tlshdConf)
		if err != nil {
			return nil, &rpctls.Error{What: fmt.Sprintf("%s, which has the defaults of xprtsec_ca=, xprtsec_cert= and xprtsec_key=: %v", tlshdConf, err),
				Cure: "give these options, or mend the file", Err: err}
		}
		c.Files.CA = cmp.Or(c.Files.CA, tlshd.CA)
		if c.Files.Cert == "" {
			c.Files.Cert, c.Files.Key = tlshd.Cert, tlshd.Key
		}
	}
	switch {
	case !own:
		c.Files.Cert, c.Files.Key = "", "" // as Linux does: only mtls shows one
	case c.Files.Cert == "" || c.Files.Key == "":
		return nil, &rpctls.Error{What: "xprtsec=mtls needs a certificate of this client, and its key",
			Cure: "xprtsec_cert= and xprtsec_key= name their files; without them, x509.certificate and x509.private_key of [authenticate.client] in " + tlshdConf}
	}
	return c, nil
}

// Encryption is what the last connection over the route agreed on, in words; "" for clear text.
func (r *Route) Encryption() string {
	if r.encrypts == nil {
		return ""
	}
	if s := r.encrypts.State(); s != nil {
		return s.String()
	}
	return ""
}

// EncryptedUntil is when the first of the server's certificates ends, and the file of this host's private key if others
// may read it. It is for a route with an Encryption.
func (r *Route) EncryptedUntil() (until time.Time, exposedKey string) {
	if key := r.encrypts.Files.Key; key != "" {
		if info, err := os.Stat(key); err == nil && info.Mode().Perm()&0o077 != 0 {
			exposedKey = key
		}
	}
	return r.encrypts.State().Until, exposedKey
}

// Encryption tells of a failed connection that was to be encrypted; ok is false for other errors.
func Encryption(err error) (what, cure string, ok bool) {
	var e *rpctls.Error
	if !errors.As(err, &e) {
		return "", "", false
	}
	return e.What, e.Cure, true
}

// EncryptionPasses tells of an error of Encryption whether it is one that passes with a server that starts, or one that does so only
// if something here or there has yet to be put in its place; ok is false for other errors.
func EncryptionPasses(err error) (transient, starting, ok bool) {
	var e *rpctls.Error
	if !errors.As(err, &e) {
		return false, false, false
	}
	return e.Passes == rpctls.Transient, e.Passes == rpctls.Starting, true
}

// tcpRoute is the route by TCP to addr, of the server that the user has named host.
func tcpRoute(o *options.Options, to Server) (*Route, error) {
	c, err := encryption(o, to.Host)
	if err != nil {
		return nil, err
	}
	cfg := tcpConfig(to.Addr, o)
	cfg.Callbacks = to.Callbacks
	if c != nil {
		cfg.Upgrade = c.Upgrade
	}
	d, err := tcp.NewDialer(cfg)
	if err != nil {
		return nil, err
	}
	return &Route{How: "tcp", Dialer: d, Memory: unlimited, encrypts: c}, nil
}
