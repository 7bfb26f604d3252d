package rpctls

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"
)

// Error is why a connection is not encrypted, as far as that is known.
type Error struct {
	// What is the case, and Cure what may help.
	What, Cure string
	// Passes says whether a later connection may fare better.
	Passes Passing
	// Err is the cause, if there is one below; What tells of it.
	Err error
}

// Passing says whether an Error may pass without anybody mending what it tells of.
type Passing uint8

const (
	// Lasting is what a certificate, a name or a setting says. It is the same with the next connection.
	Lasting Passing = iota
	// Starting is what is so while something has not been started or put in its place yet, and else for good: a server
	// that offers no TLS, a file of this host that is not there.
	Starting
	// Transient is a server that does not answer, or goes away, before it has said anything of TLS: as far as can be told from
	// here, it is starting.
	Transient
)

func (e *Error) Error() string { return e.What }

func (e *Error) Unwrap() error { return e.Err }

// The cures that more than one error has.
const (
	cureNoTLS = "the server does not have TLS on this port (RFC 9289): a Linux server needs kernel 6.4 or newer and tlshd of ktls-utils; " +
		"xprtsec=none goes without encryption"
	cureTLSHD = "on a Linux server: is tlshd running (systemctl status tlshd), and has it a certificate ([authenticate.server] in /etc/tlshd.conf)? its log says more"
	cureClock = "renew it on the server; if it is valid, the clock of this host is wrong"
	cureNoCA  = "xprtsec_ca= names the file with the certificate of the authority that has signed it"
	cureMTLS  = "the server asks for a certificate of this client: xprtsec=mtls with xprtsec_cert= and xprtsec_key="
	cureOwn   = "the server does not take the certificate of this client: is it valid, and does the server know the authority that has signed it?"
)

// Alerts of RFC 8446 section 6 that say what a server thinks of a client.
const (
	alertBadCertificate         = 42
	alertUnsupportedCertificate = 43
	alertCertificateRevoked     = 44
	alertCertificateExpired     = 45
	alertCertificateUnknown     = 46
	alertUnknownCA              = 48
	alertAccessDenied           = 49
	alertProtocolVersion        = 70
	alertCertificateRequired    = 116
	alertNoApplicationProtocol  = 120
)

// alertOf is the alert with which the peer has ended the connection. The type of crypto/tls for it has no name.
func alertOf(err error) (alert uint64, ok bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return v.Uint(), true
}

// explainHandshake says why the handshake, or the call that confirms it, has failed. own: this side has a certificate.
func explainHandshake(ctx context.Context, err error, own bool) error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if context.Cause(ctx) == errSilent {
		return &Error{What: fmt.Sprintf("the server offers TLS, but does not answer the handshake within %v", HandshakeTimeout), Cure: cureTLSHD, Err: errSilent, Passes: Transient}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if alert, ok := alertOf(err); ok {
		e := &Error{What: fmt.Sprintf("the server ended the TLS handshake: %v", errors.Unwrap(opError(err))), Err: err}
		switch alert {
		case alertCertificateRequired:
			e.What, e.Cure = "the server demands a certificate of this client", cureMTLS
		case alertBadCertificate, alertUnsupportedCertificate, alertCertificateRevoked, alertCertificateExpired, alertCertificateUnknown,
			alertUnknownCA, alertAccessDenied:
			e.Cure = cureOwn
			if !own {
				e.Cure = cureMTLS
			}
		case alertProtocolVersion:
			e.Cure = "RFC 9289 demands TLS 1.3 of both sides: is the server's TLS library too old?"
		case alertNoApplicationProtocol:
			e.Cure = "what answers there does not know the protocol name sunrpc: is it an NFS server?"
		default: // a daemon without its certificate says so, too
			e.Cure, e.Passes = cureTLSHD, Starting
		}
		return e
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return &Error{What: "the server closed the connection in the TLS handshake", Cure: cureTLSHD, Err: err, Passes: Transient}
	}
	return fmt.Errorf("TLS handshake: %w", err)
}

func opError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	return err
}

// unread is an Error of a file of this host.
func unread(what, cure string, err error) *Error {
	e := &Error{What: fmt.Sprintf("%s: %v", what, err), Cure: cure, Err: err}
	if errors.Is(err, os.ErrNotExist) {
		e.Passes = Starting
	}
	return e
}

// errSilent: the peer took longer than HandshakeTimeout.
var errSilent = fmt.Errorf("no answer in time: %w", os.ErrDeadlineExceeded)

// explainChain says why the certificate cert of the named side is not trusted.
func explainChain(side string, cert *x509.Certificate, err error) error {
	e := &Error{What: fmt.Sprintf("the %s's certificate (%s) does not hold: %v", side, nameOf(cert), err), Err: err}
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		which := cert
		if invalid.Cert != nil {
			which = invalid.Cert
		}
		what := fmt.Sprintf("has expired on %s", which.NotAfter.UTC().Format(time.DateTime))
		if time.Now().Before(which.NotBefore) {
			what = fmt.Sprintf("is not valid before %s", which.NotBefore.UTC().Format(time.DateTime))
		}
		e.What, e.Cure = fmt.Sprintf("the %s's certificate (%s) %s UTC", side, nameOf(which), what), cureClock
	case errors.As(err, &x509.UnknownAuthorityError{}) && selfSigned(cert):
		e.What = fmt.Sprintf("the %s's certificate (%s) is self-signed, and not trusted here", side, nameOf(cert))
		e.Cure = "if it was got in a safe way, xprtsec_ca= can name a file with this very certificate"
	case errors.As(err, &x509.UnknownAuthorityError{}):
		e.What = fmt.Sprintf("the %s's certificate (%s) is signed by an authority that is not trusted here (%s)", side, nameOf(cert), orNameless(cert.Issuer.String()))
		e.Cure = cureNoCA
	}
	return e
}

func selfSigned(cert *x509.Certificate) bool {
	return string(cert.RawIssuer) == string(cert.RawSubject)
}

func nameOf(cert *x509.Certificate) string { return orNameless(cert.Subject.String()) }

// maxName bounds what is shown of a name: whoever answers can have chosen one of 200 KB.
const maxName = 200

func orNameless(name string) string {
	switch {
	case name == "":
		return "without a name"
	case len(name) > maxName:
		return strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	return name
}
