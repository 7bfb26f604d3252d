// Package gsspeer runs one end of a GSS-API security context by the system's
// libgssapi_krb5, MIT's: an independent peer for tests of Kerberos tokens.
//
// It owns a program in C, which is compiled for each test binary that uses it, and the
// pipes to it. gcc and the package libgssapi-krb5-2 are needed, and no headers.
// Without them Start skips the test, or fails it if RDMAFS_REALM_REQUIRED is set.
//
// A Peer serves one caller at a time. Nothing is started but the program, which ends with
// the test.
package gsspeer

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/realm"
)

//go:embed testdata/peer.c
var source []byte

// Peer is an end of a context.
type Peer struct {
	in  io.WriteCloser
	out io.ReadCloser
}

// maxFrame bounds what the program sends.
const maxFrame = 17 << 20

// build compiles the program.
func build(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "peer.c"), filepath.Join(dir, "peer")
	if err := os.WriteFile(src, source, 0o600); err != nil {
		t.Fatal(err)
	}
	why := ""
	if _, err := exec.LookPath("gcc"); err != nil {
		why = "needs gcc"
	} else if out, err := exec.Command("gcc", "-O1", "-Wall", "-o", bin, src, "-l:libgssapi_krb5.so.2").CombinedOutput(); err != nil {
		if !strings.Contains(string(out), "cannot find -l:libgssapi_krb5.so.2") {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		why = "needs libgssapi_krb5.so.2, of the package libgssapi-krb5-2"
	}
	if why != "" {
		realm.Missing(t, why)
	}
	return bin
}

// Initiator starts the end that begins, of the ticket in a cache, and returns its first
// token. service is like nfs@localhost.
func Initiator(t testing.TB, r *realm.Realm, cache, service string) (*Peer, []byte) {
	t.Helper()
	p := start(t, r, []string{"KRB5CCNAME=FILE:" + cache}, "init", service)
	token, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	return p, token
}

// Finish gives an initiator the acceptor's token.
func (p *Peer) Finish(token []byte) error {
	if err := p.write(token); err != nil {
		return err
	}
	return p.established()
}

// Acceptor starts the end that has the keys of a keytab.
func Acceptor(t testing.TB, r *realm.Realm, keytab string) *Peer {
	t.Helper()
	return start(t, r, []string{"KRB5_KTNAME=FILE:" + keytab, "KRB5RCACHENAME=none:"}, "accept")
}

// Accept gives an acceptor the initiator's token, and returns its own.
func (p *Peer) Accept(token []byte) ([]byte, error) {
	if err := p.write(token); err != nil {
		return nil, err
	}
	reply, err := p.read()
	if err != nil {
		return nil, err
	}
	return reply, p.established()
}

func start(t testing.TB, r *realm.Realm, env []string, args ...string) *Peer {
	t.Helper()
	cmd := exec.Command(build(t), args...)
	cmd.Env = append(r.Env(), env...)
	var said strings.Builder
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
	t.Cleanup(func() {
		_ = in.Close() // the program ends at the end of its input
		if err := cmd.Wait(); err != nil {
			t.Logf("peer: %v: %s", err, said.String())
		}
	})
	return &Peer{in: in, out: out}
}

func (p *Peer) write(b []byte) error {
	_, err := p.in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func (p *Peer) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.out, head[:]); err != nil {
		return nil, fmt.Errorf("no answer of libgssapi: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(p.out, b)
	return b, err
}

// result reads the answer to a request.
func (p *Peer) result() ([]byte, error) {
	b, err := p.read()
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || b[0] != 0 {
		return nil, errors.New(strings.TrimPrefix(string(b), "\x01"))
	}
	return b[1:], nil
}

func (p *Peer) established() error {
	_, err := p.result()
	return err
}

func (p *Peer) ask(kind byte, parts ...[]byte) ([]byte, error) {
	b := []byte{kind}
	for _, part := range parts {
		b = append(b, part...)
	}
	if err := p.write(b); err != nil {
		return nil, err
	}
	return p.result()
}

// MIC makes a token for a message.
func (p *Peer) MIC(msg []byte) ([]byte, error) { return p.ask('M', msg) }

// Verify checks one that the other end has made.
func (p *Peer) Verify(msg, mic []byte) error {
	_, err := p.ask('V', binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg, mic)
	return err
}

// Wrap seals a message.
func (p *Peer) Wrap(msg []byte) ([]byte, error) { return p.ask('W', msg) }

// Unwrap opens what the other end has sealed.
func (p *Peer) Unwrap(token []byte) ([]byte, error) { return p.ask('U', token) }

// Name is the other end's principal.
func (p *Peer) Name() (string, error) {
	b, err := p.ask('N')
	return string(b), err
}
