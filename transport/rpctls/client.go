package rpctls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// HandshakeTimeout bounds all that is done on a connection before its first record, each side.
const HandshakeTimeout = 10 * time.Second

// protocol is the name of RPC in ALPN (RFC 9289 section 7.2).
const protocol = "sunrpc"

// Client encrypts the connections of a client. Its methods may be called from any goroutine.
type Client struct {
	// Host is the server's name or address as the user has given it: its certificate must be for that.
	Host string
	// Program and Version are those of the NULL calls.
	Program, Version uint32
	// Files has no certificate where the client shows none.
	Files Files

	last atomic.Pointer[State]
}

// State is what was agreed on with the server by the last handshake.
type State struct {
	Version, Cipher string
	// Peer is the subject of the server's certificate, and Until when it ends.
	Peer  string
	Until time.Time
	// Shown: this side has shown a certificate. Not every server asks for one.
	Shown bool
}

func (s *State) String() string {
	what := fmt.Sprintf("%s, %s, with the server's certificate (%s, valid until %s UTC)", s.Version, s.Cipher, s.Peer, s.Until.UTC().Format(time.DateTime))
	if s.Shown {
		what += " and this client's"
	}
	return what
}

// State is that of the last connection; nil before the first.
func (c *Client) State() *State { return c.last.Load() }

// Upgrade is for Config.Upgrade of transport/tcp. The conn that it returns is a *Conn.
func (c *Client) Upgrade(ctx context.Context, conn net.Conn) (net.Conn, error) {
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, HandshakeTimeout, errSilent)
	defer cancel()
	stop := interrupted(ctx, conn)
	over, err := c.start(ctx, conn, cfg)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return over, nil
}

// interrupted has reads and writes of conn fail once ctx has ended, until stop. stop reports whether they did not.
func interrupted(ctx context.Context, conn net.Conn) (stop func() bool) {
	done := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(time.Unix(1, 0)) // a closed one fails as well
	})
	return func() bool {
		if undo() {
			return true
		}
		<-done
		return false
	}
}

// config is that of one connection.
func (c *Client) config() (*tls.Config, error) {
	roots, err := c.Files.roots()
	if err != nil {
		return nil, err
	}
	own, err := c.Files.certificate()
	if err != nil {
		return nil, err
	}
	cfg := config()
	cfg.ServerName = c.Host
	// The check of crypto/tls does not know RFC 9289's purposes of keys, and knows wildcards: VerifyConnection is in its place.
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(s tls.ConnectionState) error { return verifyServer(&s, roots, c.Host) }
	if own != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return cfg, nil
}

// config is what both sides have: RFC 9289 sections 4.2 and 5.
func config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
		// Tickets after the handshake would be in the way of a peer whose kernel goes on with TLS.
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
	}
}

// start does what is before the first record.
func (c *Client) start(ctx context.Context, conn net.Conn, cfg *tls.Config) (*Conn, error) {
	if err := c.probe(ctx, conn); err != nil {
		return nil, err
	}
	own, shown := cfg.GetClientCertificate, false
	if own != nil {
		cfg.GetClientCertificate = func(q *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			shown = true
			return own(q)
		}
	}
	over, wire := newConn(conn, func(w *wire) *tls.Conn { return tls.Client(w, cfg) })
	if err := over.tls.HandshakeContext(ctx); err != nil {
		return nil, explainHandshake(ctx, err, own != nil)
	}
	if err := c.confirm(over.tls); err != nil {
		return nil, explainHandshake(ctx, err, own != nil)
	}
	wire.holds = true
	c.last.Store(stateOf(over.tls, shown))
	return over, nil
}

func stateOf(conn *tls.Conn, shown bool) *State {
	s := conn.ConnectionState()
	cert := s.PeerCertificates[0]
	return &State{Version: tls.VersionName(s.Version), Cipher: tls.CipherSuiteName(s.CipherSuite), Peer: nameOf(cert), Until: earliest(s.PeerCertificates), Shown: shown}
}

// earliest is when the first of certificates ends.
func earliest(all []*x509.Certificate) time.Time {
	end := all[0].NotAfter
	for _, c := range all[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

// probe asks the server for TLS.
func (c *Client) probe(ctx context.Context, conn net.Conn) error {
	xid := rand.Uint32()
	r, err := c.null(conn, xid, flavorTLS)
	switch {
	case errors.Is(err, errNoReply):
		return &Error{What: fmt.Sprintf("the server does not answer the probe for TLS as an RPC server does: %v", err), Cure: "is that the port of an NFS server?", Err: err}
	case err != nil && context.Cause(ctx) == errSilent:
		return &Error{What: fmt.Sprintf("the server does not answer the probe for TLS within %v", HandshakeTimeout), Cure: "is that the port of an NFS server, and is the server well?", Err: errSilent, Passes: Transient}
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return &Error{What: "the server closed the connection on the probe for TLS", Cure: cureNoTLS, Err: err, Passes: Starting}
	case err != nil:
		return fmt.Errorf("probe for TLS: %w", err)
	case r.denied:
		return &Error{What: "the server has no TLS: it denies the credentials AUTH_TLS", Cure: cureNoTLS, Passes: Starting}
	case !r.starts:
		return &Error{What: "the server has no TLS: it answers the probe without STARTTLS", Cure: cureNoTLS, Passes: Starting}
	}
	return nil
}

// confirm makes a NULL call inside TLS. Whatever the reply says, the server has taken the handshake.
func (c *Client) confirm(conn net.Conn) error {
	_, err := c.null(conn, rand.Uint32(), flavorNone)
	return err
}

// null makes a NULL call.
func (c *Client) null(conn net.Conn, xid, flavor uint32) (reply, error) {
	if _, err := conn.Write(appendNull(nil, xid, c.Program, c.Version, flavor)); err != nil {
		return reply{}, err
	}
	return readReply(conn, xid)
}
