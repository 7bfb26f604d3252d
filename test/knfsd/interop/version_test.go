//go:build knfsd

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// TestVersionFallback: asked in version 2, the Linux server says ERR_VERS {1,1},
// and the same call and all others are answered in version 1 on the same
// connection.
func TestVersionFallback(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dev := iwarp.Open(iwarp.Config{})
	defer dev.Close()
	c := reconnect.New(rpcrdma.NewDialer(rpcrdma.DialerConfig{Device: dev, Addr: g.Addr(knfsd.SIW), TryVersion2: true}),
		reconnect.Config{Server: "guest", Soft: true})
	defer c.Close()
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	if v := c.Stats().Terms.Version; v != rpcrdma.Version2 {
		t.Errorf("the connection begins in version %d", v)
	}
	const nfs, version3, null, calls = 100003, 3, 0, 100
	for range calls {
		if err := c.Call(ctx, &transport.Call{Prog: nfs, Vers: version3, Proc: null}); err != nil {
			t.Fatal(err)
		}
	}
	s := c.Stats()
	if s.Terms.Version != rpcrdma.Version1 || s.Connects != 1 || s.Resends != 0 || s.BadReplies != 0 {
		t.Errorf("%+v", s)
	}
	// The refused call was sent twice.
	if s.Calls != calls+1 || s.Replies != calls {
		t.Errorf("%d calls sent, %d replies", s.Calls, s.Replies)
	}
}
