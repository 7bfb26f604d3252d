package rpctls_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpctest"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

const (
	program = 100003
	version = 3
	host    = "nfs.example"
	payload = 1<<20 + 4096
)

var _ tcp.BuffersWriter = (*rpctls.Conn)(nil)

// world is a server that serves h, with a certificate, and what a client needs to trust it.
type world struct {
	addr   net.Addr
	cut    func()
	client rpctls.Client
}

// beside answers the calls by which clients confirm a handshake: the suite counts those of its own program.
type beside struct{ transport.Handler }

func (b beside) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Prog == program {
		return transport.Success
	}
	if !q.Encrypted {
		return transport.TooWeak
	}
	return b.Handler.Serve(ctx, q)
}

// serve starts a server; mutual has it demand a certificate, which the client has.
func serve(t *testing.T, h transport.Handler, concurrent int, mutual bool) *world {
	t.Helper()
	ca := certs.NewCA(t, "authority")
	cert := ca.Issue(t, "server", certs.For(host))
	server := &rpctls.Server{Files: rpctls.Files{Cert: cert.Cert, Key: cert.Key}}
	w := &world{client: rpctls.Client{Host: host, Program: program, Version: version, Files: rpctls.Files{CA: ca.Cert}}}
	if mutual {
		own := ca.Issue(t, "client")
		server.Files.CA = ca.Cert
		w.client.Files.Cert, w.client.Files.Key = own.Cert, own.Key
	}
	w.addr, w.cut = listen(t, beside{h}, tcp.ServerConfig{MaxPayload: payload, Concurrent: concurrent, Upgrade: server.Upgrade})
	return w
}

// listen serves h until the test ends.
func listen(t *testing.T, h transport.Handler, cfg tcp.ServerConfig) (net.Addr, func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &rpctest.Cutter{Listener: ln}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	runServe := func() { served <- tcp.Serve(ctx, c, h, cfg) }
	go runServe()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr(), c.Cut
}

func (w *world) caller(t *testing.T, callbacks transport.Handler, cfg reconnect.Config) transport.Caller {
	t.Helper()
	d, err := tcp.NewDialer(tcp.Config{Addr: w.addr.(*net.TCPAddr).AddrPort(), MaxPayload: payload, Callbacks: callbacks, CallbackConcurrent: 256, Upgrade: w.client.Upgrade})
	if err != nil {
		t.Fatal(err)
	}
	c := reconnect.New(d, cfg)
	t.Cleanup(func() { _ = c.Close() }) // the second time in a test that closes it itself
	return c
}

func caller(nconnect int, mutual bool) rpctest.NewCaller {
	return func(t *testing.T, h transport.Handler) (transport.Caller, func()) {
		w := serve(t, h, 512, mutual)
		return w.caller(t, nil, reconnect.Config{Server: "suite", Timeo: time.Hour, Probe: -1, NConnect: nconnect}), w.cut
	}
}

// TestSuite: what every transport can do goes over TLS.
func TestSuite(t *testing.T) { rpctest.Run(t, caller(1, false)) }

func TestSuiteMutual(t *testing.T) { rpctest.Run(t, caller(1, true)) }

func TestSuiteOverSeveralLinks(t *testing.T) { rpctest.Run(t, caller(4, true)) }

func TestBackward(t *testing.T) {
	rpctest.RunBackward(t, func(t *testing.T, h, callbacks transport.Handler) (transport.Caller, func()) {
		w := serve(t, h, 4, false)
		return w.caller(t, callbacks, reconnect.Config{Server: "suite", Timeo: time.Hour, Probe: -1}), w.cut
	})
}

func TestUnanswered(t *testing.T) {
	rpctest.RunUnanswered(t, func(t *testing.T, h transport.Handler, cfg reconnect.Config) transport.Caller {
		return serve(t, h, 512, false).caller(t, nil, cfg)
	})
}
