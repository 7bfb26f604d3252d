package rpcrdma

import (
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
)

// heldSide is a serverSide that does not get its requests to open memory posted
// before release is closed.
type heldSide struct {
	serverSide
	held, release chan struct{}
}

func (c heldSide) PostAndReap(wrs []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	if wrs[0].Op == verbs.OpBind {
		close(c.held)
		<-c.release
	}
	return c.serverSide.PostAndReap(wrs, wc)
}

type heldRequest struct {
	scriptRequest
	held, release chan struct{}
}

func (r heldRequest) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	c, err := r.scriptRequest.Accept(ctx, o)
	return heldSide{c.(serverSide), r.held, r.release}, err
}

// TestDoneBeforeReply has a client send RDMA_DONE for a reply that is still being
// posted: nothing of the server's memory stays open to it.
func TestDoneBeforeReply(t *testing.T) {
	dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
	conn := &scriptConn{}
	srv, err := NewServer(dev, fuzzProgram{}, ServerConfig{InlineIn: 1024, InlineOut: 1024, ReadReplies: true})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	runServe := func() { served <- srv.Serve(context.Background(), dev) }
	go runServe()
	held, release := make(chan struct{}), make(chan struct{})
	dev.reqs <- heldRequest{scriptRequest{conn: conn}, held, release}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	h := msgHeader(5, Lists{})
	conn.deliver(append(encodeHeader(&h), rpcCall(5, 1, 0, 4000, 1, 3)...), 0)
	<-held
	conn.deliver(xdrWords(5, 1, 1, uint32(Done)), 0)
	var c *serverConn
	srv.mu.Lock()
	for c = range srv.conns {
	}
	srv.mu.Unlock()
	eventually(t, "RDMA_DONE dealt with", func() bool { return srv.Stats().Dones == 1 && len(c.free) == cap(c.free)-1 })
	close(release)
	eventually(t, "memory back", func() bool { return srv.Stats().Memory.Leases == 0 })
	conn.mu.Lock()
	if len(conn.bound) > 0 || conn.closed {
		t.Errorf("%d keys are valid", len(conn.bound))
	}
	conn.mu.Unlock()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-served
}
