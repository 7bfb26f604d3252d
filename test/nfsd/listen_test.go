package nfsd

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// brittle is a device of which the first listener fails, and the second cannot be
// made.
type brittle struct {
	verbs.Device
	listens atomic.Int32
}

func (b *brittle) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	switch b.listens.Add(1) {
	case 1:
		l, err := b.Device.Listen(at, o)
		return broken{l}, err
	case 2:
		return nil, errors.New("no socket")
	}
	return b.Device.Listen(at, o)
}

type broken struct{ verbs.Listener }

func (broken) Accept(context.Context) (verbs.Request, error) {
	return nil, errors.New("the socket is broken")
}

// TestListenerFails: a listener that fails is replaced by another at the same
// address.
func TestListenerFails(t *testing.T) {
	dev := &brittle{Device: iwarp.Open(iwarp.Config{})}
	at, err := start(t, Export{}).s.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	client := iwarp.Open(iwarp.Config{})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		c, err := client.Dial(ctx, at, verbs.ConnOptions{SendQueue: 1, RecvQueue: 1})
		if err == nil {
			c.Close()
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if n := dev.listens.Load(); n != 3 {
		t.Errorf("%d listeners were made, want 3", n)
	}
}
