package rpctls_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// nobody serves no program.
type nobody struct{}

func (nobody) Serve(context.Context, *transport.Request) transport.AcceptStat {
	return transport.ProgUnavail
}

// dial connects to addr once.
func dial(ctx context.Context, addr net.Addr, c *rpctls.Client) (transport.Link, error) {
	d, err := tcp.NewDialer(tcp.Config{Addr: addr.(*net.TCPAddr).AddrPort(), Upgrade: c.Upgrade})
	if err != nil {
		return nil, err
	}
	return d.Dial(ctx)
}

// clear reports one line with a cure, or why err is not that.
func clear(t *testing.T, err error, want string, cured bool) {
	t.Helper()
	var e *rpctls.Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("%v is no Error", err)
	case !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n"):
		t.Errorf("%v\ndoes not say %q in one line", err, want)
	case cured != (e.Cure != ""):
		t.Errorf("%v: cure %q", err, e.Cure)
	}
}

var (
	rpcClient = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 33}
	rpcServer = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 34}
)

// TestCertificates: each certificate that does not hold is one line with a cure, and no link. The server goes on serving
// others.
func TestCertificates(t *testing.T) {
	ca, other := certs.NewCA(t, "authority"), certs.NewCA(t, "other")
	good := ca.Issue(t, "good", certs.For(host))
	client := ca.Issue(t, "client")
	self := certs.SelfSigned(t, "self", certs.For(host))
	for name, c := range map[string]struct {
		server  *certs.Pair
		demands *certs.Pair // the authority of clients
		trusts  string
		shows   *certs.Pair
		host    string
		want    string // of the error; "" for none
	}{
		"good":                     {server: good},
		"good, both":               {server: good, demands: ca, shows: client},
		"not asked for":            {server: good, shows: client},
		"self-signed, trusted":     {server: self, trusts: self.Cert},
		"by address":               {server: ca.Issue(t, "address", certs.For("192.0.2.1")), host: "192.0.2.1"},
		"for RPC servers alone":    {server: ca.Issue(t, "rpc", certs.For(host), certs.OtherPurpose(rpcServer))},
		"for RPC clients alone":    {server: good, demands: ca, shows: ca.Issue(t, "rpcc", certs.OtherPurpose(rpcClient))},
		"expired":                  {server: ca.Issue(t, "old", certs.For(host), certs.Expired), want: "certificate (CN=old) has expired on "},
		"not yet valid":            {server: ca.Issue(t, "new", certs.For(host), certs.NotYet), want: "certificate (CN=new) is not valid before "},
		"another name":             {server: good, host: "other.example", want: "is for nfs.example, not for other.example"},
		"another address":          {server: good, host: "192.0.2.1", want: "is for nfs.example, not for 192.0.2.1"},
		"wildcard":                 {server: ca.Issue(t, "wild", certs.For("*.example")), want: "names with * do not count"},
		"common name alone":        {server: ca.Issue(t, host), want: "has no subjectAltName"},
		"self-signed":              {server: self, want: "certificate (CN=self) is self-signed, and not trusted here"},
		"unknown authority":        {server: other.Issue(t, "foreign", certs.For(host)), want: "signed by an authority that is not trusted here (CN=other)"},
		"for clients alone":        {server: ca.Issue(t, "wrong", certs.For(host), certs.Purposes(x509.ExtKeyUsageClientAuth)), want: "(CN=wrong) is not for servers"},
		"client without":           {server: good, demands: ca, want: "the server demands a certificate of this client"},
		"client expired":           {server: good, demands: ca, shows: ca.Issue(t, "oldc", certs.Expired), want: "the server ended the TLS handshake: tls: "},
		"client of unknown origin": {server: good, demands: ca, shows: other.Issue(t, "foreignc"), want: "the server ended the TLS handshake: tls: "},
		"client for servers alone": {server: good, demands: ca, shows: ca.Issue(t, "wrongc", certs.Purposes(x509.ExtKeyUsageServerAuth)), want: "the server ended the TLS handshake: tls: "},
	} {
		t.Run(name, func(t *testing.T) {
			server := rpctls.Server{Files: rpctls.Files{Cert: c.server.Cert, Key: c.server.Key}}
			if c.demands != nil {
				server.Files.CA = c.demands.Cert
			}
			addr, _ := listen(t, nobody{}, tcp.ServerConfig{Upgrade: server.Upgrade})
			cl := &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: ca.Cert}}
			if c.trusts != "" {
				cl.Files.CA = c.trusts
			}
			if c.host != "" {
				cl.Host = c.host
			}
			if c.shows != nil {
				cl.Files.Cert, cl.Files.Key = c.shows.Cert, c.shows.Key
			}
			l, err := dial(t.Context(), addr, cl)
			if c.want != "" {
				clear(t, err, c.want, true)
				if cl.State() != nil {
					t.Errorf("encrypted: %v", cl.State())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s := cl.State(); s == nil || s.Version != "TLS 1.3" || s.Shown != (c.shows != nil && c.demands != nil) || s.Peer != "CN="+c.server.Name() {
				t.Errorf("%v", s)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFiles: what is wrong with the files of this host is known before anybody is asked, and read again the next time.
func TestFiles(t *testing.T) {
	ca := certs.NewCA(t, "authority")
	good, other := ca.Issue(t, "good", certs.For(host)), ca.Issue(t, "other")
	server := rpctls.Server{Files: rpctls.Files{Cert: good.Cert, Key: good.Key}}
	addr, _ := listen(t, nobody{}, tcp.ServerConfig{Upgrade: server.Upgrade})
	empty := t.TempDir() + "/empty"
	if err := os.WriteFile(empty, []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]rpctls.Files{
		"no such file":         {CA: "/none/ca.pem"},
		"no regular file":      {CA: "/"},
		"no certificate in":    {CA: empty},
		"certificate of this":  {CA: ca.Cert, Cert: "/none/c.pem", Key: good.Key},
		"private key of this":  {CA: ca.Cert, Cert: good.Cert, Key: "/none/k.pem"},
		"private key does not": {CA: ca.Cert, Cert: good.Cert, Key: other.Key},
		"failed to find":       {CA: ca.Cert, Cert: empty, Key: empty},
	} {
		c := &rpctls.Client{Host: host, Program: program, Version: version, Files: files}
		_, err := dial(t.Context(), addr, c)
		clear(t, err, want, true)
		if missing := strings.Contains(err.Error(), "no such file"); passing(err) != map[bool]rpctls.Passing{true: rpctls.Starting}[missing] {
			t.Errorf("%v: passing %d", err, passing(err))
		}
		if c.Files = (rpctls.Files{CA: ca.Cert}); err != nil {
			if l, err := dial(t.Context(), addr, c); err != nil {
				t.Errorf("with other files: %v", err)
			} else {
				_ = l.Close()
			}
		}
	}
	if err := (&rpctls.Server{}).Check(); err == nil {
		t.Error("a server without a certificate")
	}
	if err := (&rpctls.Server{Files: rpctls.Files{Cert: good.Cert, Key: good.Key, CA: empty}}).Check(); err == nil {
		t.Error("a server without an authority in the file")
	}
}

// talk is a peer on one connection.
type talk func(net.Conn) error

// script has a peer do what it likes with the first connection. The peer's error is the test's.
func script(t *testing.T, peer talk) net.Addr {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	runPeer := func() {
		conn, err := ln.Accept()
		if err == nil {
			err = peer(conn)
			_ = conn.Close()
		}
		done <- err
	}
	go runPeer()
	t.Cleanup(func() {
		_ = ln.Close()
		if err := <-done; err != nil {
			t.Error("peer:", err)
		}
	})
	return ln.Addr()
}

// probed reads the probe and answers with what follows its transaction id.
func probed(conn net.Conn, answer ...uint32) error {
	b := make([]byte, 44)
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	msg := bytes.Clone(b[4:8])
	for _, w := range answer {
		msg = append(msg, byte(w>>24), byte(w>>16), byte(w>>8), byte(w))
	}
	_, err := conn.Write(append([]byte{0x80, 0, 0, byte(len(msg))}, msg...))
	return err
}

var starts = []uint32{1, 0, 0, 8, 0x53544152, 0x54544c53, 0}

// untilClosed reads until the client has closed.
func untilClosed(conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return nil // reset: closed, too
	}
	return err
}

// TestNoTLS: what a server without TLS answers, and what is no RPC server, is an error; never a call follows in clear text.
func TestNoTLS(t *testing.T) {
	for name, c := range map[string]struct {
		answer []uint32
		want   string
	}{
		"denied":             {[]uint32{1, 1, 1, 1}, "it denies the credentials AUTH_TLS"},
		"rejected":           {[]uint32{1, 1, 1, 2}, "it denies the credentials AUTH_TLS"},
		"answered as a NULL": {[]uint32{1, 0, 0, 0, 0}, "it answers the probe without STARTTLS"},
		"other verifier":     {[]uint32{1, 0, 0, 8, 0x53544152, 0x54544c54, 0}, "it answers the probe without STARTTLS"},
		"a call":             {[]uint32{0, 2, 1, 1, 1}, "as an RPC server does"},
		"garbage":            {[]uint32{7, 7, 7, 7}, "as an RPC server does"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := script(t, func(conn net.Conn) error {
				if err := probed(conn, c.answer...); err != nil {
					return err
				}
				b, err := io.ReadAll(conn)
				if len(b) > 0 {
					return errors.New("something follows the probe")
				}
				_ = err // a reset
				return nil
			})
			_, err := dial(t.Context(), addr, &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: certs.NewCA(t, "a").Cert}})
			clear(t, err, c.want, true)
			if want := map[bool]rpctls.Passing{true: rpctls.Starting}[c.answer[0] == 1]; passing(err) != want {
				t.Errorf("%v: passing %d", err, passing(err))
			}
		})
	}
	t.Run("a server of ours", func(t *testing.T) {
		addr, _ := listen(t, nobody{}, tcp.ServerConfig{})
		_, err := dial(t.Context(), addr, &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: certs.NewCA(t, "a").Cert}})
		clear(t, err, "it denies the credentials AUTH_TLS", true)
	})
	t.Run("closed", func(t *testing.T) {
		addr := script(t, func(conn net.Conn) error { _, err := io.ReadFull(conn, make([]byte, 44)); return err })
		_, err := dial(t.Context(), addr, &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: certs.NewCA(t, "a").Cert}})
		clear(t, err, "closed the connection on the probe", true)
		if passing(err) != rpctls.Starting {
			t.Errorf("passing %d", passing(err))
		}
	})
}

// TestHandshakeEnds: a server that offers TLS and then says nothing, says something else, closes, or has only TLS 1.2.
func TestHandshakeEnds(t *testing.T) {
	ca := certs.NewCA(t, "authority")
	cert := ca.Issue(t, "server", certs.For(host))
	pair, err := tls.LoadX509KeyPair(cert.Cert, cert.Key)
	if err != nil {
		t.Fatal(err)
	}
	hello := func(conn net.Conn) error { _, err := io.ReadFull(conn, make([]byte, 5)); return err }
	over := func(cfg *tls.Config) talk {
		return func(conn net.Conn) error {
			cfg.Certificates = []tls.Certificate{pair}
			if err := tls.Server(conn, cfg).Handshake(); err == nil {
				return errors.New("the handshake has ended well")
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		then talk
		want string
	}{
		"silent":           {untilClosed, "does not answer the handshake within 10s"},
		"closed":           {hello, "closed the connection in the TLS handshake"},
		"alert":            {func(conn net.Conn) error { _, err := conn.Write([]byte{0x15, 3, 3, 0, 2, 2, 80}); return err }, "ended the TLS handshake: tls: internal error"},
		"TLS 1.2":          {over(&tls.Config{MaxVersion: tls.VersionTLS12}), "ended the TLS handshake: tls: protocol version"},
		"another protocol": {over(&tls.Config{NextProtos: []string{"h2"}}), "ended the TLS handshake: tls: no application protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := script(t, func(conn net.Conn) error {
				if err := probed(conn, starts...); err != nil {
					return err
				}
				return c.then(conn)
			})
			begin := time.Now()
			_, err := dial(t.Context(), addr, &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: ca.Cert}})
			clear(t, err, c.want, true)
			if want := map[string]rpctls.Passing{"silent": rpctls.Transient, "closed": rpctls.Transient, "alert": rpctls.Starting}[name]; passing(err) != want {
				t.Errorf("passing %d", passing(err))
			}
			if name == "silent" {
				if !strings.Contains(cure(err), "tlshd") || time.Since(begin) < rpctls.HandshakeTimeout {
					t.Errorf("after %v: %v", time.Since(begin), cure(err))
				}
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		addr := script(t, func(conn net.Conn) error {
			if err := probed(conn, starts...); err != nil {
				return err
			}
			cancel()
			return untilClosed(conn)
		})
		if _, err := dial(ctx, addr, &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: ca.Cert}}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func passing(err error) rpctls.Passing {
	var e *rpctls.Error
	if errors.As(err, &e) {
		return e.Passes
	}
	return 255
}

func cure(err error) string {
	var e *rpctls.Error
	if errors.As(err, &e) {
		return e.Cure
	}
	return ""
}
