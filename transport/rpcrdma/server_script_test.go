package rpcrdma

import (
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// recordingSide is a serverSide that records what is posted.
type recordingSide struct {
	serverSide
	posting func(wr *verbs.SendWR)
}

func (c recordingSide) PostAndReap(wrs []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	for i := range wrs {
		c.posting(&wrs[i])
	}
	return c.serverSide.PostAndReap(wrs, wc)
}

// scriptServer serves a scripted client, which gets what is posted to it.
func scriptServer(t *testing.T, dev *listenDevice, h transport.Handler, cfg ServerConfig, posting func(wr *verbs.SendWR)) (*Server, *scriptConn) {
	t.Helper()
	dev.reqs = make(chan verbs.Request, 1)
	conn := &scriptConn{}
	s, err := NewServer(dev, h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	runServe := func() { served <- s.Serve(context.Background(), dev) }
	go runServe()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	dev.reqs <- scriptRequest{conn, func(c serverSide) verbs.Conn { return recordingSide{c, posting} }}
	eventually(t, "receives", func() bool { return conn.receives() > 0 })
	return s, conn
}

// introduced has the client say that it takes all of the backward direction, and
// returns what the server may call it by.
func (c *scriptConn) introduced(p backSwitch) transport.Backchannel {
	h := Header{XID: 9, Version: Version2, Credits: 16, Proc: wire.ProcConnProp, V2: introduction(4096, uint32(wire.BackwardGeneral), 0)}
	c.deliver(encodeHeader(&h), 0)
	h = msgHeader2(1, wire.Lists{})
	c.deliver(append(encodeHeader(&h), rpcCall(1, procNull)...), 0)
	return <-p.seen
}
