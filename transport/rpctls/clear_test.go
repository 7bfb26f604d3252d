package rpctls_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// guarded serves copier's calls, and but by TLS only those of one program.
type guarded struct{}

func (guarded) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if !q.Encrypted && q.Prog == program {
		return transport.TooWeak
	}
	return copier{}.Serve(ctx, q)
}

// TestClearText: a server with TLS serves clients without, whatever their first call is like, as far as its handler lets them;
// what it does not is denied with AUTH_TOOWEAK, and the connection goes on.
func TestClearText(t *testing.T) {
	cert := certs.SelfSigned(t, "server", certs.For(host))
	server := rpctls.Server{Files: rpctls.Files{Cert: cert.Cert, Key: cert.Key}}
	addr, _ := listen(t, guarded{}, tcp.ServerConfig{MaxPayload: payload, Upgrade: server.Upgrade})
	a := arena(t, 2<<20)
	for _, n := range []int{0, 1, 100, 40_000, 1 << 20} {
		d, err := tcp.NewDialer(tcp.Config{Addr: addr.(*net.TCPAddr).AddrPort()})
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for xid := range uint32(3) {
			if n == 0 { // 44 bytes, as the probe
				err = l.Exchange(t.Context(), xid, &transport.Call{Prog: program + 1, Vers: version})
			} else {
				err = mirror(t.Context(), l, a, xid, known(n))
			}
			if err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			var denied *transport.RPCError
			err = l.Exchange(t.Context(), 100+xid, &transport.Call{Prog: program, Vers: version})
			if !errors.As(err, &denied) || !denied.Denied || !denied.Auth || denied.Code != 5 {
				t.Errorf("%v is not AUTH_TOOWEAK", err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSecondProbe: inside TLS, and of another procedure, AUTH_TLS is denied with AUTH_BADCRED (RFC 9289 section 4.1).
func TestSecondProbe(t *testing.T) {
	w := serve(t, copier{}, 4, false)
	socket, err := net.Dial("tcp", w.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	over, err := w.client.Upgrade(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	plain, err := net.Dial("tcp", w.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for name, c := range map[string]struct {
		conn net.Conn
		proc byte
	}{"inside TLS": {over, 0}, "another procedure": {plain, 1}} {
		call := append([]byte{0x80, 0, 0, 40, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, c.proc, 0, 0, 0, 7}, make([]byte, 12)...)
		if _, err := c.conn.Write(call); err != nil {
			t.Fatal(err)
		}
		got, want := make([]byte, 24), []byte{0x80, 0, 0, 20, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1}
		if _, err := io.ReadFull(c.conn, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}
