//go:build knfsd

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// TestConnectsAnswer: 50 of 50 connections to stock siw answer their first call,
// although its server side can lose the wake-up for the first FPDU.
func TestConnectsAnswer(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	const connects = 50
	answered := 0
	for i := range connects {
		if err := connectOnce(g); err != nil {
			t.Errorf("connection %d: %v", i, err)
			continue
		}
		answered++
	}
	t.Logf("%d of %d connections to stock siw answered their first call", answered, connects)
}

func connectOnce(g *knfsd.Guest) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dev := iwarp.Open(iwarp.Config{})
	defer dev.Close()
	d := rpcrdma.NewDialer(rpcrdma.DialerConfig{Device: dev, Addr: g.Addr(knfsd.SIW)})
	defer d.Close()
	link, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	const nfs, version3, null = 100003, 3, 0
	return link.Exchange(ctx, 1, &transport.Call{Prog: nfs, Vers: version3, Proc: null})
}
