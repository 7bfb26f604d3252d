package mount

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// lateSecure is a late server that demands TLS and a certificate of its clients.
type lateSecure struct {
	*lateServer
	ca, own *certs.Pair
}

func newLateSecure(t *testing.T) *lateSecure {
	l, ca := newLateServer(t), certs.NewCA(t, "authority")
	cert := ca.Issue(t, "server", certs.For(l.host))
	l.tls = &nfsd.TLS{Cert: cert.Cert, Key: cert.Key, ClientCA: ca.Cert, Require: true}
	return &lateSecure{l, ca, ca.Issue(t, "client")}
}

func (l *lateSecure) mtls() string {
	return fmt.Sprintf("xprtsec=mtls,xprtsec_ca=%s,xprtsec_cert=%s,xprtsec_key=%s", l.ca.Cert, l.own.Cert, l.own.Key)
}

// answering is a server at which nothing but answer, the body of a reply to the probe, is there: it is given and the
// connection closed. The function that is returned ends it.
func (l *lateSecure) answering(t *testing.T, answer string) (end func()) {
	t.Helper()
	ln, err := net.Listen("tcp", l.at())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	runServer := func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			probe := make([]byte, 44)
			if _, err := io.ReadFull(conn, probe); err == nil {
				_, _ = conn.Write(append([]byte{0x80, 0, 0, byte(4 + len(answer))}, append(probe[4:8:8], answer...)...))
				_, _ = conn.Read(probe) // something of TLS, or the end
			}
			_ = conn.Close()
		}
	}
	go runServer()
	end = func() { _ = ln.Close(); <-done }
	t.Cleanup(end)
	return end
}

// TestTLSNotThereYet: a mount that is asked for before its server has TLS, or this host its certificate, is made once that is so:
// without being asked to where a server has begun with TLS, and where it has not, or a file is missing, by retry= and bg.
func TestTLSNotThereYet(t *testing.T) {
	const denied, starts = "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01", "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08STARTTLS\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		answer      string // instead of the server
		missing     bool   // the client's certificate
		words, says string
	}{
		"closed in the handshake": {answer: starts, says: "closed the connection in the TLS handshake"},
		"no TLS":                  {answer: denied, words: ",retry=1", says: "the server has no TLS"},
		"no certificate":          {missing: true, words: ",retry=1", says: "no such file"},
		"in the background":       {missing: true, words: ",bg", says: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, end, dir := newLateSecure(t), func() {}, t.TempDir()
			if c.answer != "" {
				end = l.answering(t, c.answer)
			} else {
				l.start(t)
			}
			words := l.mtls() + c.words
			if c.missing {
				if err := os.Rename(l.own.Cert, l.own.Cert+".later"); err != nil {
					t.Fatal(err)
				}
			}
			if c.words != "" { // who does not ask to wait is told at once
				at := l.host + ":" + l.export
				r := Command(t, nil, "mount", at, dir, "-o", fmt.Sprintf("proto=tcp,mountport=%d,nlmport=%d,%s", latePort, latePort, l.mtls()))
				if r.Code != 32 || !strings.Contains(r.Stderr, c.says) || strings.Contains(r.Stderr, "trying") {
					t.Errorf("exit code %d: %s", r.Code, r.Stderr)
				}
			}
			mounted := awaitMount(t, dir)
			cmd, line := l.mounting(t, dir, words)
			if !strings.Contains(line, c.says) || !strings.Contains(line, "trying") {
				t.Errorf("said %q", line)
			}
			if c.missing {
				if err := os.Rename(l.own.Cert+".later", l.own.Cert); err != nil {
					t.Fatal(err)
				}
			} else {
				end()
				l.start(t)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			mounted()
			if r := Command(t, nil, "umount", dir); r.Code != 0 {
				t.Error(r.Stderr)
			}
		})
	}
}

// TestTLSNeverThere: a certificate that does not hold, and one that the server does not take, end a mount at once, with bg too.
func TestTLSNeverThere(t *testing.T) {
	l := newLateSecure(t)
	l.start(t)
	other := certs.NewCA(t, "other")
	stranger := other.Issue(t, "stranger")
	for name, c := range map[string]struct{ words, says string }{
		"unknown authority": {strings.Replace(l.mtls(), l.ca.Cert, other.Cert, 1), "an authority that is not trusted here"},
		"unknown client":    {strings.NewReplacer(l.own.Cert, stranger.Cert, l.own.Key, stranger.Key).Replace(l.mtls()), "ended the TLS handshake"},
		"no certificate":    {strings.Replace(l.mtls(), "mtls", "tls", 1), "demands a certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := Command(t, nil, "mount", l.host+":"+l.export, dir, "-o", fmt.Sprintf("proto=tcp,mountport=%d,nlmport=%d,bg,retry=1,%s", latePort, latePort, c.words))
			if r.Code != 32 || !strings.Contains(r.Stderr, c.says) || strings.Contains(r.Stderr, "trying") {
				t.Errorf("exit code %d: %s", r.Code, r.Stderr)
			}
			if _, mounted, err := mounttable.Find(dir); mounted || err != nil {
				t.Errorf("mounted: %t, %v", mounted, err)
			}
		})
	}
}
