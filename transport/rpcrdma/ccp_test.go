package rpcrdma

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// ccpCall is CONF_RDMA with words as arguments.
func ccpCall(xid, vers, proc uint32, args ...uint32) []byte {
	return xdrWords(append([]uint32{xid, 0, 2, 100417, vers, proc, 0, 0, 0, 0}, args...)...)
}

// TestServerConfigures has a client without private data, to which replies are
// of 1024 bytes until it has said what it takes.
func TestServerConfigures(t *testing.T) {
	s := startServer(t, ServerConfig{InlineIn: 8192, InlineOut: 4096})
	c := dialRaw(t, s.addr, nil)
	c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procList, 300))
	c.wantError(1, wire.ErrChunk)
	c.call(msgHeader(2, wire.Lists{}), ccpCall(2, 1, 1, 65536, 65536, 3))
	if _, got := c.reply(); !bytes.Equal(got, rpcAccepted(2, 8192, 4, 0)) {
		t.Errorf("answered %x", got)
	}
	for _, n := range []uint32{300, 1011} { // 28 + 24 + 4n bytes
		c.call(msgHeader(3, wire.Lists{}), rpcCall(3, procList, n))
		if h, got := c.reply(); h.Proc != wire.ProcMsg || len(got) != 24+4*int(n) {
			t.Errorf("%d words: %+v and %d bytes", n, h, len(got))
		}
	}
	c.call(msgHeader(4, wire.Lists{}), rpcCall(4, procList, 1012))
	c.wantError(4, wire.ErrChunk)
	// What comes later is answered and changes nothing.
	c.call(msgHeader(5, wire.Lists{}), ccpCall(5, 1, 1, 1024, 1024, 0))
	c.reply()
	c.call(msgHeader(6, wire.Lists{}), rpcCall(6, procList, 1011))
	if h, _ := c.reply(); h.Proc != wire.ProcMsg {
		t.Errorf("got %+v", h)
	}
	copy(c.data.Bytes(), testPattern(9000))
	body, pos := sumCall(7, 9000)
	l := wire.Lists{}
	for i := range 9 { // more than the three reads at a time that it serves
		l.Read = append(l.Read, wire.ReadSegment{Position: pos, Segment: c.bind(c.data.Slice(1000*i, 1000), verbs.RemoteRead)})
	}
	c.call(msgHeader(7, l), body)
	if _, got := c.reply(); !bytes.Equal(got, rpcAccepted(7, sumReply(testPattern(9000))...)) {
		t.Errorf("answered %x", got)
	}
}

// TestServerConfiguresReplies has clients that take less than the server sends,
// and less or more than their private data says.
func TestServerConfiguresReplies(t *testing.T) {
	s := startServer(t, ServerConfig{InlineOut: 4096})
	for _, private := range [][]byte{nil, peerSizes(4096)} {
		for _, n := range []uint32{1024, 2048} {
			c := dialRaw(t, s.addr, private)
			c.call(msgHeader(1, wire.Lists{}), ccpCall(1, 1, 1, 4096, n, 1))
			c.reply()
			words := (n - wire.EmptyLen1 - 24) / 4
			c.call(msgHeader(2, wire.Lists{}), rpcCall(2, procList, words))
			if h, got := c.reply(); h.Proc != wire.ProcMsg || len(got) != 24+4*int(words) {
				t.Errorf("%d bytes allowed: %+v and %d bytes", n, h, len(got))
			}
			c.call(msgHeader(3, wire.Lists{}), rpcCall(3, procList, words+1))
			c.wantError(3, wire.ErrChunk)
		}
	}
}

// TestServerConfiguredWithoutReads: a client that serves no RDMA Read may not ask
// for any.
func TestServerConfiguredWithoutReads(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(1, wire.Lists{}), ccpCall(1, 1, 1, 4096, 4096, 0))
	c.reply()
	body, pos := sumCall(2, 100)
	c.call(msgHeader(2, wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(0, 100), verbs.RemoteRead)}}}), body)
	c.wantError(2, wire.ErrChunk)
	c.ping(3)
}

// TestServerConfigureRefuses has calls of the protocol that mean nothing.
func TestServerConfigureRefuses(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	whole := []uint32{4096, 4096, 1}
	for _, tc := range []struct {
		body []byte
		want []uint32
	}{
		{ccpCall(9, 2, 1, whole...), []uint32{2, 1, 1}},
		{ccpCall(9, 1, 2, whole...), []uint32{3}},
		{ccpCall(9, 1, 0), []uint32{0}},
		{ccpCall(9, 1, 1), []uint32{4}},
		{ccpCall(9, 1, 1, whole[:2]...), []uint32{4}},
		{ccpCall(9, 1, 1, 4096, 4096, 1, 1), []uint32{4}},
		{ccpCall(9, 1, 1, 1023, 4096, 1), []uint32{4}},
		{ccpCall(9, 1, 1, 4096, 0, 1), []uint32{4}},
		{ccpCall(9, 1, 1, math.MaxUint32, math.MaxUint32, math.MaxUint32), []uint32{0, 4096, 4, 0}},
	} {
		c.call(msgHeader(9, wire.Lists{}), tc.body)
		if _, got := c.reply(); !bytes.Equal(got, xdrWords(append([]uint32{9, 1, 0, 0, 0}, tc.want...)...)) {
			t.Errorf("%x answered with %x", tc.body, got)
		}
	}
}

// TestRequesterConfigures has servers of all kinds answer the first call.
func TestRequesterConfigures(t *testing.T) {
	for _, c := range []struct {
		name       string
		private    []byte
		answer     []uint32 // from accept_stat on
		send, recv int
		said       string
		fails      bool
	}{
		{"larger than assumed", nil, []uint32{0, 4096, 4, 0}, 4096, 4096, "", false},
		{"larger than wanted", nil, []uint32{0, 1 << 20, 4, 0}, 8192, 8192, "", false},
		{"absurd", nil, []uint32{0, math.MaxUint32, math.MaxUint32, math.MaxUint32}, 8192, 8192, "", false},
		{"as told before", peerSizes(4096), []uint32{0, 4096, 4, 0}, 4096, 4096, "", false},
		{"less than told before", peerSizes(4096), []uint32{0, 2048, 4, 0}, 2048, 4096, "", false},
		{"no such program", peerSizes(4096), []uint32{1}, 4096, 4096, "does not take part", false},
		{"no such program, nothing known", nil, []uint32{1}, 1024, 1024, "does not take part", false},
		{"too small", nil, []uint32{0, 1023, 4, 0}, 0, 0, "", true},
		{"too short", nil, []uint32{0, 4096, 4}, 0, 0, "", true},
		{"too long", nil, []uint32{0, 4096, 4, 0, 0}, 0, 0, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := startPeer(t, c.private, func(p *peer) error {
				q, err := p.call()
				if err != nil {
					return err
				}
				if want := ccpCall(q.XID, 1, 1, 8192, 8192, readsIn); q.Proc != wire.ProcMsg || !bytes.Equal(q.body, want) {
					return fmt.Errorf("first call %+v, %x", q.Header, q.body)
				}
				reply := append(q.header(wire.ProcMsg, 8, wire.Lists{}), xdrWords(append([]uint32{q.XID, 1, 0, 0, 0}, c.answer...)...)...)
				if err := p.send(reply); err != nil {
					return err
				}
				return answerAll(5)(p)
			})
			said := ""
			cfg := func(d *DialerConfig) {
				d.CCP, d.InlineSend, d.InlineRecv = true, 8192, 8192
				d.Log = testlog.To(func(message string) { said += message })
			}
			if c.fails {
				dc := DialerConfig{Device: iwarp.Open(iwarp.Config{}), Addr: addr}
				cfg(&dc)
				d := NewDialer(dc)
				if _, err := d.Dial(within(t, patience)); !errors.Is(err, transport.ErrProtocol) {
					t.Errorf("got %v", err)
				}
				if err := errors.Join(d.Close(), dc.Device.Close()); err != nil {
					t.Error(err)
				}
				return
			}
			r := dialPeer(t, addr, cfg)
			if r.Terms().SendInline != c.send || r.Terms().RecvInline != c.recv || !strings.Contains(said, c.said) || (said == "") != (c.said == "") {
				t.Errorf("terms %+v, said %q", r.Terms(), said)
			}
			wantAlive(t, r)
		})
	}
}

// TestServerConfiguredMeanwhile says that no RDMA Read is served while a call's
// chunks are being read: that call ends all the same.
func TestServerConfiguredMeanwhile(t *testing.T) {
	s := startServer(t, ServerConfig{})
	for range 10 {
		c := dialRaw(t, s.addr, peerSizes(4096))
		body, pos := sumCall(1, 100)
		list := make([]wire.ReadSegment, 100)
		for i := range list {
			list[i] = wire.ReadSegment{Position: pos, Segment: c.bind(c.data.Slice(i, 1), verbs.RemoteRead)}
		}
		c.call(msgHeader(1, wire.Lists{Read: list}), body)
		c.call(msgHeader(2, wire.Lists{}), ccpCall(2, 1, 1, 4096, 4096, 0))
		first, _ := c.reply()
		second, _ := c.reply()
		if first.XID+second.XID != 3 {
			t.Errorf("replies %+v and %+v", first, second)
		}
	}
}

// TestConfiguredBothHalves moves calls of all shapes on configured connections.
func TestConfiguredBothHalves(t *testing.T) {
	for _, readReplies := range []bool{false, true} {
		t.Run(fmt.Sprint(readReplies), func(t *testing.T) {
			s := startServer(t, ServerConfig{InlineIn: 8192, InlineOut: 8192, ReadReplies: readReplies, ReadDepth: 2})
			r := dialPeer(t, s.addr, func(c *DialerConfig) {
				c.CCP, c.InlineSend, c.InlineRecv, c.ReadReplies = true, 4096, 16384, readReplies
			})
			if r.Terms().SendInline != 4096 || r.Terms().RecvInline != 8192 || r.reads != map[bool]int{true: 2}[readReplies] {
				t.Errorf("terms %+v, %d reads", r.Terms(), r.reads)
			}
			testShapes(t, r)
		})
	}
}

// TestRequesterObeysReads: no read chunks are fetched from a server that serves
// none.
func TestRequesterObeysReads(t *testing.T) {
	addr := startPeer(t, peerSizes(4096), func(p *peer) error {
		for i := 0; ; i++ {
			q, err := p.call()
			if err != nil {
				return err
			}
			if q.Proc == wire.ProcDone {
				continue
			}
			reply := append(q.header(wire.ProcMsg, 8, wire.Lists{}), rpcAccepted(q.XID, 4096, 4, 0)...)
			if i > 0 {
				reply = append(q.header(wire.ProcMsg, 8, wire.Lists{Read: []wire.ReadSegment{rseg(28, 100)}}), rpcAccepted(q.XID, 100)...)
			}
			if err := p.send(reply); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.CCP, c.ReadReplies = true, true })
	got := 0
	err := r.do(within(t, patience), readCall(mem.Vec{r.arena.Seg(0, 100)}, &got))
	wantFate(t, err, transport.Answered, transport.ErrProtocol)
	if r.Err() != nil {
		t.Error("the link has ended")
	}
}

// TestConfiguredVersion2: the RDMA Reads that a server says it serves are the
// connection's, so that its long backward calls are refused when there are none;
// the sizes that it says are of version 1.
func TestConfiguredVersion2(t *testing.T) {
	for reads, want := range []func(p *peer, h *Header, body []byte) error{
		wantBackFault(wire.ErrReadChunks, wire.Fault{}), wantBack(wire.ProcMsg),
	} {
		t.Run(fmt.Sprint(reads), func(t *testing.T) {
			checked := make(chan error, 1)
			addr := startPeer(t, peerSizes(1024), func(p *peer) error {
				q, err := p.call()
				if err != nil {
					return err
				}
				if want := ccpCall(q.XID, 1, 1, 8192, 8192, readsIn); q.Version != Version2 || !bytes.Equal(q.body, want) {
					return fmt.Errorf("first call %+v, %x", q.Header, q.body)
				}
				if err := p.send(append(q.header(wire.ProcMsg, 8, wire.Lists{}), rpcAccepted(q.XID, 1024, 4, uint32(reads))...)); err != nil {
					return err
				}
				// The next call tells that the client has taken that.
				for q.Proc = wire.ProcConnProp; q.Proc == wire.ProcConnProp; {
					if q, err = p.call(); err != nil {
						return err
					}
				}
				if err := p.send(q.inline(5)); err != nil {
					return err
				}
				seg, err := p.open(0, rpcCall(77, procNull), verbs.RemoteRead)
				if err != nil {
					return err
				}
				h := Header{XID: 77, Version: Version2, Credits: 3, Proc: wire.ProcNoMsg, Lists: wire.Lists{Read: []wire.ReadSegment{{Segment: seg}}}}
				if err := p.send(encodeHeader(&h)); err != nil {
					return err
				}
				for q.XID != 77 {
					if q, err = p.call(); err != nil {
						return err
					}
					if q.XID != 77 {
						if err := p.send(q.inline(5)); err != nil {
							return err
						}
					}
				}
				checked <- want(p, &q.Header, q.body)
				return answerAll(5)(p)
			})
			r := dialPeer(t, addr, func(c *DialerConfig) {
				c.CCP, c.TryVersion2, c.Callbacks, c.InlineSend, c.InlineRecv = true, true, newTestProgram(), 8192, 8192
			})
			wantAlive(t, r)
			if err := <-checked; err != nil {
				t.Error(err)
			}
			wantAlive(t, r)
			if i, _ := InfoOf(r.link); i.SendInline != wire.DefaultInline2 || i.RecvInline != wire.DefaultInline2 {
				t.Errorf("thresholds %d and %d", i.SendInline, i.RecvInline)
			}
		})
	}
}
