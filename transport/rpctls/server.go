package rpctls

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// Server encrypts the connections of clients that ask for it.
type Server struct {
	// Files has the server's certificate and key. With a CA, clients must show a certificate that it has signed.
	Files Files
}

// Upgrade is for ServerConfig.Upgrade of transport/tcp: it returns conn and what it has read, or a *Conn.
func (s *Server) Upgrade(ctx context.Context, conn net.Conn) (over net.Conn, ahead []byte, err error) {
	head := make([]byte, 4+nullBytes)
	if _, err := io.ReadFull(conn, head[:4]); err != nil {
		return nil, nil, err
	}
	if binary.BigEndian.Uint32(head) != lastFragment|nullBytes {
		return conn, head[:4], nil
	}
	if _, err := io.ReadFull(conn, head[4:]); err != nil {
		return nil, nil, err
	}
	xid, is := isProbe(head[4:])
	if !is {
		return conn, head, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, HandshakeTimeout, errSilent)
	defer cancel()
	stop := interrupted(ctx, conn)
	tc, err := s.start(ctx, conn, xid)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return tc, nil, nil
}

// start answers the probe and shakes hands.
func (s *Server) start(ctx context.Context, conn net.Conn, xid uint32) (*Conn, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(appendStart(nil, xid)); err != nil {
		return nil, err
	}
	over, wire := newConn(conn, func(w *wire) *tls.Conn { return tls.Server(w, cfg) })
	if err := over.tls.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	wire.holds = true
	return over, nil
}

// Check reads the files, as each handshake does.
func (s *Server) Check() error {
	_, err := s.config()
	return err
}

func (s *Server) config() (*tls.Config, error) {
	own, err := s.Files.certificate()
	if err != nil {
		return nil, err
	}
	if own == nil {
		return nil, &Error{What: "a server needs a certificate and its key"}
	}
	cfg := config()
	cfg.Certificates = []tls.Certificate{*own}
	if s.Files.CA == "" {
		return cfg, nil
	}
	roots, err := s.Files.roots()
	if err != nil {
		return nil, err
	}
	cfg.ClientAuth = tls.RequireAnyClientCert // VerifyConnection checks it
	cfg.ClientCAs = roots
	cfg.VerifyConnection = func(s tls.ConnectionState) error { return verifyClient(&s, roots) }
	return cfg, nil
}
