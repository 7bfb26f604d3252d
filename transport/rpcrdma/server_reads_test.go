package rpcrdma

import (
	"context"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// readSide keeps RDMA Reads from completing.
type readSide struct {
	serverSide
	held *heldReads
}

type heldReads struct {
	mu  sync.Mutex
	wcs []verbs.Completion
}

// ReadsOut is less than what the device has.
func (readSide) ReadsOut() int { return 3 }

func (h *heldReads) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.wcs)
}

func (c readSide) PostSend(wrs []verbs.SendWR) (int, error) {
	if wrs[0].Op != verbs.OpRead {
		return c.serverSide.PostSend(wrs)
	}
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	for _, wr := range wrs {
		clear(wr.Local[0].Bytes())
		c.held.wcs = append(c.held.wcs, verbs.Completion{ID: wr.ID, Op: wr.Op})
	}
	return len(wrs), nil
}

// TestServerLimitsReads has a client that serves few RDMA Reads at a time, as its
// connection says, or fewer, as it announces by the Connection Configuration Protocol.
func TestServerLimitsReads(t *testing.T) {
	const segments = 9
	for name, most := range map[string]int{"by the connection": 3, "configured": 2} {
		t.Run(name, func(t *testing.T) {
			dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
			conn, held := &scriptConn{}, &heldReads{}
			srv, err := NewServer(dev, newTestProgram(), ServerConfig{InlineIn: 1024, InlineOut: 1024})
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			runServe := func() { served <- srv.Serve(context.Background(), dev) }
			go runServe()
			dev.reqs <- scriptRequest{conn, func(c serverSide) verbs.Conn { return readSide{c, held} }}
			eventually(t, "receives", func() bool { return conn.receives() > 0 })
			answered := uint64(0)
			if name == "configured" {
				h := msgHeader(1, wire.Lists{})
				conn.deliver(append(encodeHeader(&h), ccpCall(1, 1, 1, 1024, 1024, uint32(most))...), 0)
				answered++
				eventually(t, "configured", func() bool { return srv.Stats().Replies == answered })
			}
			var c *serverConn
			srv.mu.Lock()
			for c = range srv.conns {
			}
			srv.mu.Unlock()
			body, pos := sumCall(2, 4*segments)
			h := msgHeader(2, wire.Lists{})
			for range segments {
				h.Lists.Read = append(h.Lists.Read, rseg(pos, 4))
			}
			conn.deliver(append(encodeHeader(&h), body...), 0)
			// One more waits each time for one to complete.
			for done := 0; done < segments; done++ {
				want := min(most, segments-done)
				eventually(t, "reads under way", func() bool {
					return held.len() == want && (len(c.reads) == cap(c.reads) || done > segments-most)
				})
				held.mu.Lock()
				wc := held.wcs[0]
				held.wcs = held.wcs[1:]
				held.mu.Unlock()
				conn.mu.Lock()
				conn.done = append(conn.done, wc)
				conn.ready.Broadcast()
				conn.mu.Unlock()
			}
			eventually(t, "reply", func() bool { return srv.Stats().Replies == answered+1 })
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
			<-served
		})
	}
}
