package rpcrdma_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpctest"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

func TestUnanswered(t *testing.T) {
	for name, open := range map[string]devices{"iwarp": overIWARP(iwarp.Config{}), "roce": overRoCE} {
		for _, version := range []uint32{rpcrdma.Version1, rpcrdma.Version2} {
			t.Run(fmt.Sprintf("%s, version %d", name, version), func(t *testing.T) {
				rpctest.RunUnanswered(t, func(t *testing.T, h transport.Handler, cfg reconnect.Config) transport.Caller {
					return callerWith(t, h, cfg, version, open)
				})
			})
		}
	}
}

// callerWith makes a caller whose links begin with the one credit that they have
// by the protocol.
func callerWith(t *testing.T, h transport.Handler, cfg reconnect.Config, version uint32, open devices) transport.Caller {
	theirs, ours, at := open(t)
	ln, err := theirs.Listen(at, verbs.ListenOptions{Backlog: 16})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := rpcrdma.NewServer(theirs, h, rpcrdma.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	caller := reconnect.New(rpcrdma.NewDialer(rpcrdma.DialerConfig{
		Device: ours, Addr: ln.Addr(), TryVersion2: version == rpcrdma.Version2,
	}), cfg)
	t.Cleanup(func() {
		if s := caller.Stats(); s.Terms.Version != int(version) {
			t.Errorf("calls went in version %d", s.Terms.Version)
		}
		if err := errors.Join(caller.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		if err := errors.Join(ln.Close(), theirs.Close(), ours.Close()); err != nil {
			t.Error(err)
		}
	})
	return caller
}
