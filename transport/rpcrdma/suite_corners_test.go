package rpcrdma_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpctest"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// cornerCaller makes callers whose server and requester are configured alike.
func cornerCaller(server rpcrdma.ServerConfig, change func(*rpcrdma.DialerConfig)) rpctest.NewCaller {
	return func(t *testing.T, h transport.Handler) (transport.Caller, func()) {
		server.MaxPayload = 1<<20 + 4096
		theirs, ours := iwarp.Open(iwarp.Config{}), iwarp.Open(iwarp.Config{})
		inner, err := theirs.Listen(netip.MustParseAddrPort("127.0.0.1:0"), verbs.ListenOptions{Backlog: 16})
		if err != nil {
			t.Fatal(err)
		}
		ln := &cutListener{Listener: inner}
		srv, err := rpcrdma.NewServer(theirs, warmHandler{h}, server)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(context.Background(), ln) }()
		cfg := rpcrdma.DialerConfig{
			Device: ours, Addr: ln.Addr(),
			InlineSend: server.InlineIn, InlineRecv: server.InlineOut, MaxPayload: server.MaxPayload,
		}
		change(&cfg)
		caller := reconnect.New(&warmDialer{Dialer: rpcrdma.NewDialer(cfg)}, reconnect.Config{Server: "suite", Timeo: time.Hour, Probe: -1, NConnect: 1})
		t.Cleanup(func() {
			_ = caller.Close() // the second time in a test that closes it itself
			if err := srv.Close(); err != nil {
				t.Errorf("server: %v", err)
			}
			if err := <-served; !errors.Is(err, transport.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
			if err := errors.Join(inner.Close(), theirs.Close(), ours.Close()); err != nil {
				t.Error(err)
			}
		})
		return caller, ln.cut
	}
}

// TestSuiteCorners runs the suite by read-read, with padded calls, and with
// backward calls possible, at every threshold.
func TestSuiteCorners(t *testing.T) {
	for _, c := range []struct {
		name   string
		server rpcrdma.ServerConfig
		change func(*rpcrdma.DialerConfig)
	}{
		{"readread", rpcrdma.ServerConfig{ReadReplies: true}, func(c *rpcrdma.DialerConfig) { c.ReadReplies = true }},
		{"msgp", rpcrdma.ServerConfig{}, func(c *rpcrdma.DialerConfig) { c.Padding = rpcrdma.Padding{Align: 64} }},
		{"backward", rpcrdma.ServerConfig{Backward: 4}, func(c *rpcrdma.DialerConfig) { c.Callbacks = warmHandler{} }},
	} {
		for _, inline := range []int{1024, 4096, 65536} {
			t.Run(fmt.Sprintf("%s, inline %d", c.name, inline), func(t *testing.T) {
				c.server.InlineIn, c.server.InlineOut = inline, inline
				rpctest.Run(t, cornerCaller(c.server, c.change))
			})
		}
	}
}
