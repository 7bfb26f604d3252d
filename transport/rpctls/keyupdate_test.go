package rpctls

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/certs"
)

// TestKeyUpdate: a peer (OpenSSL) that changes its keys, and asks for new ones of this side, again and again: what comes is read, the
// answer goes before what is written next, and nothing is lost.
func TestKeyUpdate(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	cert := certs.SelfSigned(t, "server", certs.For("nfs.example"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	// OpenSSL is the client: of the two its s_client says when it has changed its keys. Conn is the same on both sides.
	cmd := exec.Command("openssl", "s_client", "-connect", ln.Addr().String(), "-tls1_3", "-CAfile", cert.Cert, "-servername", "nfs.example")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := bufio.NewScanner(out)
	await := func(what string) {
		t.Helper()
		for said.Scan() {
			if strings.Contains(said.Text(), what) {
				return
			}
		}
		t.Fatalf("openssl did not say %q: %v", what, said.Err())
	}
	socket, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert.Cert, cert.Key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config()
	cfg.Certificates = []tls.Certificate{pair}
	over, wire := newConn(socket, func(w *wire) *tls.Conn { return tls.Server(w, cfg) })
	defer over.Close()
	if err := over.tls.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	wire.holds = true
	order := func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(over, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	for range 4 {
		order("K\n") // openssl-s_client(1): new keys on both sides
		await("KEYUPDATE")
		order("after it\n")
		read("after it\n")
		if !wire.unsent() {
			t.Error("there is no answer to the new keys")
		}
		if _, err := over.Write([]byte("written by new keys\n")); err != nil {
			t.Fatal(err)
		}
		await("written by new keys")
	}
}
