package tcp_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpctest"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

func callerOver(nconnect int) rpctest.NewCaller {
	return func(t *testing.T, h transport.Handler) (transport.Caller, func()) {
		return newCaller(t, h, reconnect.Config{Server: "suite", Timeo: time.Hour, Probe: -1, NConnect: nconnect})
	}
}

func newCaller(t *testing.T, h transport.Handler, cfg reconnect.Config) (transport.Caller, func()) {
	return newCallerBothWays(t, h, nil, 512, cfg, nil)
}

// newCallerBothWays has callbacks serve the server's calls, if set. Records go over what
// upgrade makes of both ends of each connection, if set.
func newCallerBothWays(t *testing.T, h, callbacks transport.Handler, concurrent int, cfg reconnect.Config, upgrade *upgrade) (transport.Caller, func()) {
	const payload = 1<<20 + 4096
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &rpctest.Cutter{Listener: ln}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	config := tcp.Config{Addr: ln.Addr().(*net.TCPAddr).AddrPort(), MaxPayload: payload, Callbacks: callbacks, CallbackConcurrent: 256}
	ln = c
	if upgrade != nil {
		ln, config.Upgrade = upgrade.server(ln), upgrade.client
	}
	go func() { served <- tcp.Serve(ctx, ln, h, tcp.ServerConfig{MaxPayload: payload, Concurrent: concurrent}) }()
	d, err := tcp.NewDialer(config)
	if err != nil {
		t.Fatal(err)
	}
	caller := reconnect.New(d, cfg)
	t.Cleanup(func() {
		_ = caller.Close() // the second time in a test that closes it itself
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return caller, c.Cut
}

func TestSuite(t *testing.T) { rpctest.Run(t, callerOver(1)) }

// TestBackward has a server that carries out fewer calls at a time than are made,
// so that those that call back would keep the replies to them from being read.
func TestBackward(t *testing.T) {
	rpctest.RunBackward(t, func(t *testing.T, h, callbacks transport.Handler) (transport.Caller, func()) {
		return newCallerBothWays(t, h, callbacks, 4, reconnect.Config{Server: "suite", Timeo: time.Hour, Probe: -1}, nil)
	})
}

func TestUnanswered(t *testing.T) {
	rpctest.RunUnanswered(t, func(t *testing.T, h transport.Handler, cfg reconnect.Config) transport.Caller {
		c, _ := newCaller(t, h, cfg)
		return c
	})
}

func TestSuiteOverSeveralLinks(t *testing.T) { rpctest.Run(t, callerOver(4)) }
