package rpcrdma

import (
	"errors"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Clients that vanish at every step of a call.
func TestServerClientVanishes(t *testing.T) {
	s := startServer(t, ServerConfig{InlineOut: 1024})
	other := dialRaw(t, s.addr, peerSizes(4096))
	// What the raw client does not wait for does not happen: its Wait serves
	// RDMA Reads and takes what is written.
	post := func(c *rawClient, h Header, body []byte) {
		n := copy(c.out.Bytes(), append(encodeHeader(&h), body...))
		c.post(verbs.SendWR{Op: verbs.OpSend, Local: mem.Vec{c.out.Slice(0, n)}})
	}
	steps := map[string]func(c *rawClient){
		"connected": func(c *rawClient) {},
		"call sent": func(c *rawClient) { post(c, msgHeader(1, wire.Lists{}), rpcCall(1, procNull)) },
		"being read from": func(c *rawClient) {
			body, pos := sumCall(1, rawData/4)
			k := c.bind(c.data.Slice(0, rawData/4), verbs.RemoteRead)
			before := s.Stats().Reads
			post(c, msgHeader(1, wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: k}}}), body)
			eventually(t, "RDMA Read posted", func() bool { return s.Stats().Reads > before })
		},
		"long call being read": func(c *rawClient) {
			k := c.bind(c.data.Slice(0, rawData/4), verbs.RemoteRead)
			before := s.Stats().Reads
			post(c, Header{XID: 1, Version: 1, Proc: wire.ProcNoMsg, Lists: wire.Lists{Read: []wire.ReadSegment{{Position: 0, Segment: k}}}}, nil)
			eventually(t, "RDMA Read posted", func() bool { return s.Stats().Reads > before })
		},
		"in the handler": func(c *rawClient) {
			k := c.bind(c.data.Slice(0, rawData/4), verbs.RemoteWrite)
			post(c, msgHeader(1, wire.Lists{Write: []wire.Chunk{{k}}}), rpcCall(1, procHold))
			<-s.program.holding
		},
		"being written to": func(c *rawClient) {
			for i := range uint32(8) {
				k := c.bind(c.data.Slice(0, rawData/4), verbs.RemoteWrite)
				before := s.Stats().Replies
				post(c, msgHeader(i, wire.Lists{Write: []wire.Chunk{{k}}}), rpcCall(i, procFill, rawData/4, 1))
				eventually(t, "reply begun", func() bool { return s.Stats().Replies > before })
			}
		},
		"reply chunk being written": func(c *rawClient) {
			k := c.bind(c.data.Slice(0, rawData/4), verbs.RemoteWrite)
			before := s.Stats().Replies
			post(c, msgHeader(1, wire.Lists{Reply: wire.Chunk{k}}), rpcCall(1, procList, 200_000))
			eventually(t, "reply begun", func() bool { return s.Stats().Replies > before })
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, s.addr, peerSizes(4096))
			c.t = t
			step(c)
			if err := c.conn.Close(); err != nil {
				t.Error(err)
			}
			eventually(t, "connection forgotten", func() bool { return s.Stats().Conns == 1 })
			if st := s.Stats(); st.Memory.Used != 0 {
				t.Errorf("memory %+v", st.Memory)
			}
			other.ping(2)
		})
	}
}

// Clients that stall are given up; those whose call takes its time are not.
func TestServerStalledClients(t *testing.T) {
	s := startServer(t, ServerConfig{StallTimeout: 100 * time.Millisecond})
	patient := dialRaw(t, s.addr, peerSizes(4096))
	patient.call(msgHeader(1, wire.Lists{}), rpcCall(1, procHold))
	<-s.program.holding

	reader := dialRaw(t, s.addr, peerSizes(4096))
	body, pos := sumCall(1, rawData/4)
	k := reader.bind(reader.data.Slice(0, rawData/4), verbs.RemoteRead)
	reader.call(msgHeader(1, wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: k}}}), body)
	eventually(t, "drop of a client that serves no reads", func() bool { return s.Stats().Drops == 1 })

	taker := dialRaw(t, s.addr, peerSizes(4096))
	k = taker.bind(taker.data, verbs.RemoteWrite)
	k.Length = rawData / 4
	for i := range uint32(firstReceives) {
		h := msgHeader(i, wire.Lists{Write: []wire.Chunk{{k, k, k, k}}})
		for j := range h.Lists.Write[0] {
			h.Lists.Write[0][j].Offset += uint64(j) * rawData / 4
		}
		n := copy(taker.out.Bytes(), append(encodeHeader(&h), rpcCall(i, procFill, rawData/4, 1)...))
		taker.post(verbs.SendWR{Op: verbs.OpSend, Local: mem.Vec{taker.out.Slice(0, n)}})
	}
	eventually(t, "drop of a client that takes no replies", func() bool { return s.Stats().Drops == 2 })
	eventually(t, "their memory back", func() bool { return s.Stats().Memory.Leases == 0 })

	close(s.program.release)
	if h, _ := patient.reply(); h.XID != 1 {
		t.Errorf("got %+v", h)
	}
}

func TestServerIdleClients(t *testing.T) {
	s := startServer(t, ServerConfig{StallTimeout: 80 * time.Millisecond, IdleTimeout: 100 * time.Millisecond})
	busy := dialRaw(t, s.addr, peerSizes(4096))
	busy.call(msgHeader(1, wire.Lists{}), rpcCall(1, procHold))
	idle := dialRaw(t, s.addr, peerSizes(4096))
	idle.wantLost()
	close(s.program.release)
	busy.reply()
}

// A client that asks for more memory than there is waits, and no other with it.
func TestServerMemoryIsBounded(t *testing.T) {
	const one = 1<<20 + headRoom
	s := startServer(t, ServerConfig{Memory: 6 * one, ConnMemory: 2 * one})
	greedy := dialRaw(t, s.addr, peerSizes(4096))
	k := greedy.bind(greedy.data, verbs.RemoteWrite)
	hold := func(xid uint32) {
		greedy.call(msgHeader(xid, wire.Lists{Write: []wire.Chunk{{k}}, Reply: wire.Chunk{k}}), rpcCall(xid, procHold))
	}
	hold(1)
	hold(2)
	<-s.program.holding
	<-s.program.holding
	hold(3)
	hold(4)
	eventually(t, "calls waiting", func() bool { return s.Stats().Memory.Waits == 2 })
	greedy.ping(5) // needs none

	other := dialRaw(t, s.addr, peerSizes(4096))
	w := other.bind(other.data.Slice(0, 1<<20), verbs.RemoteWrite)
	other.call(msgHeader(1, wire.Lists{Write: []wire.Chunk{{w}}}), rpcCall(1, procFill, 1<<20, 1))
	other.reply()

	gone := dialRaw(t, s.addr, peerSizes(4096))
	for i := range uint32(3) {
		gone.call(msgHeader(i, wire.Lists{Write: []wire.Chunk{{k}}}), rpcCall(i, procHold))
	}
	eventually(t, "third client's call waiting", func() bool { return s.Stats().Memory.Waits == 3 })
	if err := gone.conn.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "third client gone", func() bool { return s.Stats().Conns == 2 })

	close(s.program.release)
	seen := map[uint32]bool{}
	for range 4 {
		h, _ := greedy.reply()
		seen[h.XID] = true
	}
	if len(seen) != 4 {
		t.Errorf("answers to %v", seen)
	}
	if st := s.Stats().Memory; st.Peak > 5*one {
		t.Errorf("memory %+v", st)
	}
}

func TestServerMaxConns(t *testing.T) {
	s := startServer(t, ServerConfig{MaxConns: 2})
	a, b := dialRaw(t, s.addr, nil), dialRaw(t, s.addr, nil)
	dev := iwarp.Open(iwarp.Config{})
	_, err := dev.Dial(within(t, patience), s.addr, verbs.ConnOptions{SendQueue: 1, RecvQueue: 1})
	if rej := (*verbs.RejectError)(nil); !errors.As(err, &rej) {
		t.Errorf("third client: %v", err)
	}
	if err := errors.Join(a.conn.Close(), dev.Close()); err != nil {
		t.Error(err)
	}
	eventually(t, "room", func() bool { return s.Stats().Conns == 1 })
	dialRaw(t, s.addr, nil).ping(1)
	b.ping(2)
}

// Closing a server ends outstanding calls, in every state.
func TestServerClose(t *testing.T) {
	s := startServer(t, ServerConfig{})
	var clients []*rawClient
	for i := range uint32(3) {
		c := dialRaw(t, s.addr, peerSizes(4096))
		c.call(msgHeader(i, wire.Lists{}), rpcCall(i, procHold))
		<-s.program.holding
		body, pos := sumCall(1, 100_000)
		k := c.bind(c.data.Slice(0, 100_000), verbs.RemoteRead)
		c.call(msgHeader(1, wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: k}}}), body)
		clients = append(clients, c)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range clients {
		for c.lost == nil { // a held call may have been answered before the end
			c.wait(verbs.OpRecv)
		}
	}
	if _, err := NewServer(iwarp.Open(iwarp.Config{}), s.program, ServerConfig{Memory: 1 << 20}); err == nil {
		t.Error("a server with too little memory was made")
	}
	for _, n := range []int{1000, 512 << 10, -1024} {
		if _, err := NewServer(iwarp.Open(iwarp.Config{}), s.program, ServerConfig{InlineIn: n}); err == nil {
			t.Errorf("a server with messages of %d bytes was made", n)
		}
	}
}
