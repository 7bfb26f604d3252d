package tcp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpctest"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// veiled is a conn that changes every byte, so that nothing passes that does not go
// through it.
type veiled struct{ net.Conn }

const veil = 0x5a

func (v veiled) NetConn() net.Conn { return v.Conn }

func (v veiled) Read(b []byte) (int, error) {
	n, err := v.Conn.Read(b)
	for i := range b[:n] {
		b[i] ^= veil
	}
	return n, err
}

func (v veiled) Write(b []byte) (int, error) {
	c := bytes.Clone(b)
	for i := range c {
		c[i] ^= veil
	}
	return v.Conn.Write(c)
}

// A NULL call with the flavor AUTH_TLS, and the reply of a server that has TLS:
// RFC 9289 section 4.1.
var (
	startCall  = record(1, 0, 2, 100003, 3, 0, 7, 0, 0, 0)
	startReply = record(1, 1, 0, 0, 8, 0x53544152, 0x54544c53, 0)
)

func record(words ...uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, 1<<31|uint32(4*len(words)))
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// swap writes one record and expects another.
func swap(conn net.Conn, send, want []byte) error {
	if _, err := conn.Write(send); err != nil {
		return err
	}
	return expect(conn, want)
}

func expect(conn net.Conn, want []byte) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return errors.New("another record than was expected")
	}
	return nil
}

func startVeil(_ context.Context, conn net.Conn) (net.Conn, error) {
	if err := swap(conn, startCall, startReply); err != nil {
		return nil, err
	}
	return veiled{conn}, nil
}

// veiledListener is the server's half of startVeil.
type veiledListener struct{ net.Listener }

func (l veiledListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err = expect(conn, startCall); err == nil {
			_, err = conn.Write(startReply)
		}
		if err == nil {
			return veiled{conn}, nil
		}
		conn.Close()
	}
}

// upgrade is what both ends of a connection do before the first record.
type upgrade struct {
	client func(context.Context, net.Conn) (net.Conn, error)
	server func(net.Listener) net.Listener
}

// TestUpgrade: what every transport can do goes over the conn that Upgrade has made of
// each connection, in both directions.
func TestUpgrade(t *testing.T) {
	over := func(t *testing.T, h, callbacks transport.Handler) (transport.Caller, func()) {
		return newCallerBothWays(t, h, callbacks, 512, reconnect.Config{Server: "suite", Timeo: time.Hour, Probe: -1}, &upgrade{
			client: startVeil,
			server: func(ln net.Listener) net.Listener { return veiledListener{ln} },
		})
	}
	rpctest.Run(t, func(t *testing.T, h transport.Handler) (transport.Caller, func()) { return over(t, h, nil) })
	t.Run("backward", func(t *testing.T) { rpctest.RunBackward(t, over) })
}

// TestUpgradeFails: if Upgrade fails, or does not come to an end, so does Dial, and the
// connection is closed.
func TestUpgradeFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	refused := errors.New("no TLS here")
	for name, c := range map[string]struct {
		upgrade func(context.Context, net.Conn) (net.Conn, error)
		want    error
	}{
		"refused": {func(context.Context, net.Conn) (net.Conn, error) { return nil, refused }, refused},
		"silent":  {startVeil, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d, err := tcp.NewDialer(tcp.Config{Addr: ln.Addr().(*net.TCPAddr).AddrPort(), Upgrade: c.upgrade})
			if err != nil {
				t.Fatal(err)
			}
			closed := make(chan error, 1)
			go func() {
				conn, err := ln.Accept()
				if err == nil {
					defer conn.Close()
					if name == "silent" {
						err = expect(conn, startCall)
						cancel()
					}
					if err == nil {
						_, err = conn.Read(make([]byte, 1))
					}
				}
				closed <- err
			}()
			if _, err := d.Dial(ctx); !errors.Is(err, c.want) {
				t.Errorf("Dial: %v", err)
			}
			if err := <-closed; err == nil {
				t.Error("the connection is still open")
			}
			if s := d.Stats(); s.Connects != 0 || s.ConnectFails != 1 {
				t.Errorf("%d connects, %d failed", s.Connects, s.ConnectFails)
			}
		})
	}
}
