package rpctls_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// openssl starts a command of OpenSSL, whose standard input and output are plain text, and joins them to conn when it runs. It is
// ended with the test.
func openssl(t *testing.T, conn net.Conn, args ...string) {
	t.Helper()
	cmd := exec.Command("openssl", args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	runIn := func() { _, _ = io.Copy(in, conn); _ = in.Close(); done <- struct{}{} }
	runOut := func() { _, _ = io.Copy(conn, out); _ = conn.Close(); done <- struct{}{} }
	go runIn()
	go runOut()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = conn.Close()
		<-done
		<-done
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("openssl %v: %s", args, said.Bytes())
		}
	})
}

func needOpenSSL(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
}

// both joins two connections until one ends.
func both(a, b net.Conn) error {
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
		done <- struct{}{}
	}
	go pass(a, b)
	go pass(b, a)
	<-done
	<-done
	return nil
}

// freePort is an address at which nobody listens.
func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// dialUntil connects to where somebody is about to listen.
func dialUntil(t *testing.T, addr string) (net.Conn, error) {
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil || t.Context().Err() != nil {
			return conn, err
		}
		time.Sleep(5 * time.Millisecond) // openssl does not tell when it listens
	}
}

// opensslServer has our client talk to openssl s_server: with and without a client's certificate, and with certificates that do
// not hold.
func opensslServer(t *testing.T) {
	needOpenSSL(t)
	ca := certs.NewCA(t, "authority")
	good, own := ca.Issue(t, "good", certs.For(host)), ca.Issue(t, "client")
	for name, c := range map[string]struct {
		cert *certs.Pair
		args []string
		own  bool
		want string
	}{
		"tls":            {good, []string{"-alpn", "sunrpc"}, false, ""},
		"without ALPN":   {good, nil, false, ""},
		"mtls":           {good, []string{"-alpn", "sunrpc", "-Verify", "2", "-verify_return_error", "-CAfile", ca.Cert}, true, ""},
		"AES-256":        {good, []string{"-ciphersuites", "TLS_AES_256_GCM_SHA384"}, false, ""},
		"ChaCha20":       {good, []string{"-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"}, false, ""},
		"P-256":          {good, []string{"-groups", "P-256"}, false, ""},
		"no certificate": {good, []string{"-Verify", "2", "-verify_return_error", "-CAfile", ca.Cert}, false, "the server demands a certificate"},
		"expired":        {ca.Issue(t, "old", certs.For(host), certs.Expired), nil, false, "has expired"},
		"other name":     {ca.Issue(t, "else", certs.For("other.example")), nil, false, "not for nfs.example"},
		"self-signed":    {certs.SelfSigned(t, "self", certs.For(host)), nil, false, "is self-signed"},
		"only TLS 1.2":   {good, []string{"-tls1_2"}, false, "protocol version"},
		"another ALPN":   {good, []string{"-alpn", "h2"}, false, "no application protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			backend, _ := listen(t, copier{}, tcp.ServerConfig{MaxPayload: payload})
			plain, err := net.Dial("tcp", backend.String())
			if err != nil {
				t.Fatal(err)
			}
			at := freePort(t)
			openssl(t, plain, append([]string{"s_server", "-quiet", "-accept", at, "-cert", c.cert.Cert, "-key", c.cert.Key, "-naccept", "1"}, c.args...)...)
			addr := script(t, func(conn net.Conn) error {
				if err := probed(conn, starts...); err != nil {
					return err
				}
				to, err := dialUntil(t, at)
				if err != nil {
					return err
				}
				return both(conn, to)
			})
			cl := &rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: ca.Cert}}
			if c.own {
				cl.Files.Cert, cl.Files.Key = own.Cert, own.Key
			}
			l, err := dial(t.Context(), addr, cl)
			if c.want != "" {
				clear(t, err, c.want, true)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a := arena(t, 2<<20)
			for xid, n := range []int{1, 100, 16 << 10, 100_000, 1 << 20} {
				if err := mirror(t.Context(), l, a, uint32(xid), known(n)); err != nil {
					t.Errorf("%d bytes: %v", n, err)
				}
			}
			t.Log(cl.State())
		})
	}
}

// opensslClient has openssl s_client talk to our server. The calls are made over its standard input and output.
func opensslClient(t *testing.T) {
	needOpenSSL(t)
	ca := certs.NewCA(t, "authority")
	cert, own := ca.Issue(t, "server", certs.For(host)), ca.Issue(t, "client")
	for name, c := range map[string]struct {
		demand bool
		args   []string
		fails  bool
	}{
		"tls":            {false, []string{"-alpn", "sunrpc"}, false},
		"without ALPN":   {false, nil, false},
		"mtls":           {true, []string{"-alpn", "sunrpc", "-cert", own.Cert, "-key", own.Key}, false},
		"no certificate": {true, nil, true},
		"only TLS 1.2":   {false, []string{"-tls1_2"}, true},
		"another ALPN":   {false, []string{"-alpn", "h2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := rpctls.Server{Files: rpctls.Files{Cert: cert.Cert, Key: cert.Key}}
			if c.demand {
				server.Files.CA = ca.Cert
			}
			addr, _ := listen(t, copier{}, tcp.ServerConfig{MaxPayload: payload, Upgrade: server.Upgrade})
			// What s_client connects to has made the probe.
			front := script(t, func(conn net.Conn) error {
				to, err := net.Dial("tcp", addr.String())
				if err != nil {
					return err
				}
				probe := append([]byte{0x80, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7}, make([]byte, 12)...)
				if _, err := to.Write(probe); err != nil {
					return err
				}
				answer := make([]byte, 36)
				if _, err := io.ReadFull(to, answer); err != nil {
					return err
				}
				if !bytes.Equal(answer[20:32], []byte("\x00\x00\x00\x08STARTTLS")) {
					return fmt.Errorf("the server answers %x", answer)
				}
				return both(conn, to)
			})
			// What our transport connects to are s_client's standard input and output.
			plain := script(t, func(conn net.Conn) error {
				t.Helper()
				openssl(t, conn, append([]string{"s_client", "-quiet", "-connect", front.String(), "-CAfile", ca.Cert,
					"-verify_return_error", "-verify_hostname", host, "-servername", host}, c.args...)...)
				<-t.Context().Done()
				return nil
			})
			d, err := tcp.NewDialer(tcp.Config{Addr: plain.(*net.TCPAddr).AddrPort(), MaxPayload: payload})
			if err != nil {
				t.Fatal(err)
			}
			l, err := d.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a := arena(t, 2<<20)
			for xid, n := range []int{1, 100, 16 << 10, 100_000, 1 << 20} {
				err := mirror(t.Context(), l, a, uint32(xid), known(n))
				if (err != nil) != c.fails {
					t.Errorf("%d bytes: %v", n, err)
				}
			}
		})
	}
}
