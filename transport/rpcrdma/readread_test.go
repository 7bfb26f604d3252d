package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestReadRepliesBothHalves moves replies of all shapes by read chunks.
func TestReadRepliesBothHalves(t *testing.T) {
	for _, inline := range []int{1024, 4096, 65536} {
		t.Run(fmt.Sprint(inline), func(t *testing.T) {
			s := startServer(t, ServerConfig{InlineIn: inline, InlineOut: inline, ReadReplies: true, Credits: 8})
			r := dialPeer(t, s.addr, func(c *DialerConfig) {
				c.InlineSend, c.InlineRecv, c.ReadReplies = inline, inline, true
			})
			testShapes(t, r)
			both := listCall(20_000)
			args := both.Args
			both.Args = func(w *xdr.Writer) {
				args(w)
				longArgs(20_000)(w)
			}
			if err := r.do(within(t, patience), both); err != nil {
				t.Error(err)
			}
			var callers sync.WaitGroup
			for i := range 16 {
				callers.Go(func() {
					for n := range 20 {
						if err := r.Exchange(within(t, patience), uint32(i<<16|n), listCall(20_000+n)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			callers.Wait()
			got := r.d.Stats()
			eventually(t, "as many RDMA_DONE as replies by read chunks", func() bool {
				st := s.Stats()
				return st.Dones == st.ReadReplies && st.Memory.Leases == 0
			})
			st := s.Stats()
			if got.ReadReplies < 320 || st.ReadReplies != got.ReadReplies || st.WriteChunks+st.ReplyChunks+st.ChunkErrors+st.Drops+st.Ignored != 0 {
				t.Errorf("requester %+v, responder %+v", got, st)
			}
		})
	}
}

// TestReadRepliesWaitForMemory has more long replies under way than there is
// memory for: they wait for each other.
func TestReadRepliesWaitForMemory(t *testing.T) {
	s := startServer(t, ServerConfig{ReadReplies: true, Credits: 8, MaxPayload: 64 << 10, Memory: 256 << 10, ConnMemory: 256 << 10})
	r := dialPeer(t, s.addr, func(c *DialerConfig) { c.ReadReplies = true })
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for n := range 10 {
				if err := r.Exchange(within(t, patience), uint32(i<<16|n), listCall(20_000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if st := s.Stats(); st.Drops != 0 || st.Memory.Waits == 0 {
		t.Errorf("statistics %+v", st)
	}
}

// A responder that may use read chunks keeps to what its client offers.
func TestReadRepliesOfferedChunksFirst(t *testing.T) {
	s := startServer(t, ServerConfig{ReadReplies: true})
	testShapes(t, dialPeer(t, s.addr, nil))
	if st := s.Stats(); st.ReadReplies != 0 || st.LongReplies == 0 || st.WriteChunks == 0 {
		t.Errorf("statistics %+v", st)
	}
}

// read fetches what a read segment names.
func (c *rawClient) read(s wire.Segment) []byte {
	c.t.Helper()
	local := c.data.Slice(0, int(s.Length))
	c.post(verbs.SendWR{Op: verbs.OpRead, RKey: s.Handle, Addr: s.Offset, Local: mem.Vec{local}})
	if _, ok := c.wait(verbs.OpRead); !ok {
		c.t.Fatalf("connection lost: %v", c.lost)
	}
	return bytes.Clone(local.Bytes())
}

func (c *rawClient) sendDone(xid uint32) {
	c.t.Helper()
	c.send(xdrWords(xid, 1, 16, uint32(wire.ProcDone)), nil)
}

// TestServerReadReply has the responder expose an inline reply's payloads, and
// looks at every byte of the reply.
func TestServerReadReply(t *testing.T) {
	s := startServer(t, ServerConfig{ReadReplies: true})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(5, wire.Lists{}), rpcCall(5, procFill, 5001, 2))
	h, body := c.reply()
	if h.Proc != wire.ProcMsg || !bytes.Equal(body, rpcAccepted(5, 5001, 0, 5001, 1)) || len(h.Lists.Read) != 4 {
		t.Fatalf("got %+v, %x", h, body)
	}
	want := testPattern(5001)
	for i, l := range h.Lists.Read {
		pos, n := uint32(28), 2500
		if i >= 2 {
			pos = 28 + 5004 + 8
		}
		part := want[:n]
		if i%2 == 1 {
			part = want[n:]
		}
		if got := c.read(l.Segment); l.Position != pos || !bytes.Equal(got, part) {
			t.Errorf("segment %d: position %d, %d bytes", i, l.Position, len(got))
		}
	}
	if st := s.Stats(); st.Memory.Leases == 0 || st.ReadReplies != 1 {
		t.Errorf("memory of an open reply: %+v", st)
	}
	c.sendDone(5)
	eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 })
	c.sendDone(5) // of no call now
	c.ping(6)
	eventually(t, "second RDMA_DONE ignored", func() bool { return s.Stats().Ignored == 1 })
	if n := s.Stats().Dones; n != 1 {
		t.Errorf("%d RDMA_DONE for one reply", n)
	}
}

// TestDoneClosesEveryKey tries each key of a reply after RDMA_DONE.
func TestDoneClosesEveryKey(t *testing.T) {
	s := startServer(t, ServerConfig{ReadReplies: true})
	for i := range 4 {
		c := dialRaw(t, s.addr, peerSizes(4096))
		c.call(msgHeader(5, wire.Lists{}), rpcCall(5, procFill, 5001, 2))
		h, _ := c.reply()
		if len(h.Lists.Read) != 4 {
			t.Fatalf("got %+v", h)
		}
		c.sendDone(5)
		eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 })
		k := h.Lists.Read[i]
		c.post(verbs.SendWR{Op: verbs.OpRead, RKey: k.Handle, Addr: k.Offset, Local: mem.Vec{c.data.Slice(0, 10)}})
		c.wantLost()
	}
}

// TestServerReadReplyLong has no payload that could be taken out, and one beside
// a head that is too long.
func TestServerReadReplyLong(t *testing.T) {
	s := startServerWith(t, ServerConfig{ReadReplies: true}, longProgram{})
	c := dialRaw(t, s.addr, peerSizes(1024))
	for xid, payload := range []uint32{0, 4999} {
		c.call(msgHeader(uint32(xid), wire.Lists{}), rpcCall(uint32(xid), 1, payload))
		h, body := c.reply()
		if h.Proc != wire.ProcNoMsg || len(body) != 0 || h.Lists.Read[0].Position != 0 || len(h.Lists.Read) != 1+min(int(payload), 1) {
			t.Fatalf("got %+v and %d bytes", h, len(body))
		}
		words := make([]uint32, 1000)
		want := rpcAccepted(uint32(xid), append(words, payload)...)
		if got := c.read(h.Lists.Read[0].Segment); !bytes.Equal(got, want) {
			t.Errorf("%d bytes at Position Zero, want %d", len(got), len(want))
		}
		if payload > 0 {
			if l := h.Lists.Read[1]; l.Position != uint32(len(want)) || !bytes.Equal(c.read(l.Segment), testPattern(4999)) {
				t.Errorf("payload at %+v", l)
			}
		}
		c.sendDone(uint32(xid))
	}
	eventually(t, "both closed", func() bool { return s.Stats().Dones == 2 && s.Stats().Memory.Leases == 0 })
}

// longProgram answers with a thousand words and a payload.
type longProgram struct{}

func (longProgram) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	n := int(q.Args.Uint32())
	for range 1000 {
		q.Reply.Uint32(0)
	}
	s, err := q.Lease(n)
	if err != nil {
		return transport.SystemErr
	}
	copy(s.Bytes(), testPattern(n))
	q.Reply.Payload(q.AddPayload(transport.Payload{s}))
	return transport.Success
}

// TestServerWriteAndReadChunks has one payload go into the client's write chunk
// and the next, for which there is none, into a read chunk.
func TestServerWriteAndReadChunks(t *testing.T) {
	s := startServer(t, ServerConfig{ReadReplies: true})
	c := dialRaw(t, s.addr, peerSizes(4096))
	k := c.bind(c.data.Slice(1<<20, 6000), verbs.RemoteWrite)
	c.call(msgHeader(5, wire.Lists{Write: []wire.Chunk{{k}}}), rpcCall(5, procFill, 6000, 2))
	h, _ := c.reply()
	want := testPattern(6000)
	if len(h.Lists.Read) != 2 || h.Lists.Write[0].Len() != 6000 || h.Lists.Read[0].Position != 28+6000+8 {
		t.Fatalf("got %+v", h)
	}
	got := append(c.read(h.Lists.Read[0].Segment), c.read(h.Lists.Read[1].Segment)...)
	if !bytes.Equal(got, want) || !bytes.Equal(c.data.Slice(1<<20, 6000).Bytes(), want) {
		t.Error("payloads differ")
	}
	c.sendDone(5)
	c.ping(6)
}

// TestDoneCredits has the client owe RDMA_DONE: each takes one from its grant,
// which never becomes zero, and once it owes as many as it may, replies by read
// chunks wait, while others do not.
func TestDoneCredits(t *testing.T) {
	s := startServer(t, ServerConfig{ReadReplies: true, Credits: 4})
	c := dialRaw(t, s.addr, peerSizes(4096))
	for xid, want := range []uint32{3, 2, 1, 1} {
		c.call(msgHeader(uint32(xid), wire.Lists{}), rpcCall(uint32(xid), procFill, 5000, 1))
		if h, _ := c.reply(); h.Credits != want || len(h.Lists.Read) != 2 {
			t.Errorf("reply %d: %+v, want %d credits", xid, h, want)
		}
	}
	c.call(msgHeader(4, wire.Lists{}), rpcCall(4, procFill, 5000, 1))
	for xid := range uint32(3) {
		c.ping(10 + xid)
	}
	if st := s.Stats(); st.ReadReplies != 4 {
		t.Errorf("%d replies by read chunks", st.ReadReplies)
	}
	c.sendDone(2)
	if h, _ := c.reply(); h.XID != 4 || h.Credits != 1 {
		t.Errorf("got %+v", h)
	}
	for _, xid := range []uint32{0, 1, 3, 4} {
		c.sendDone(xid)
	}
	eventually(t, "all closed", func() bool { return s.Stats().Dones == 5 && s.Stats().Memory.Leases == 0 })
	c.call(msgHeader(20, wire.Lists{}), rpcCall(20, procNull))
	if h, _ := c.reply(); h.Credits != 4 {
		t.Errorf("%d credits afterwards", h.Credits)
	}
}

// TestDoneTimeout drops a client that fetches its reply and says nothing, when its time
// is over and not before. The clock is the test's.
func TestDoneTimeout(t *testing.T) {
	cfg := ServerConfig{ReadReplies: true, DoneTimeout: time.Hour, StallTimeout: 24 * time.Hour, IdleTimeout: -1}
	if d := cfg.lookInterval(); d > cfg.DoneTimeout/2 {
		t.Errorf("clients are looked at every %v", d)
	}
	s := startServer(t, cfg)
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procFill, 5000, 1))
	c.reply()
	now := time.Now() // the reply was posted before
	s.look(now.Add(cfg.DoneTimeout - 10*patience))
	c.ping(2)
	s.look(now.Add(cfg.DoneTimeout))
	c.wantLost()
	eventually(t, "memory back", func() bool { return s.Stats().Memory.Leases == 0 && s.Stats().Drops == 1 })
}

// Two calls under one XID cannot both wait for RDMA_DONE.
func TestDoneAmbiguous(t *testing.T) {
	s := startServer(t, ServerConfig{ReadReplies: true})
	c := dialRaw(t, s.addr, peerSizes(4096))
	c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procFill, 5000, 1))
	c.reply()
	c.call(msgHeader(1, wire.Lists{}), rpcCall(1, procFill, 5000, 1))
	c.wantLost()
}

// expose opens b to the requester, at off of the peer's memory.
func (p *peer) expose(off int, b []byte) (wire.Segment, error) {
	s := p.data.Slice(off, len(b))
	copy(s.Bytes(), b)
	w, err := p.conn.NewWindow()
	if err != nil {
		return wire.Segment{}, err
	}
	seg := wire.Segment{Handle: w.Next(s), Length: uint32(len(b)), Offset: w.Addr(s)}
	return seg, p.post(verbs.SendWR{Op: verbs.OpBind, Window: w, Access: verbs.RemoteRead, Local: mem.Vec{s}})
}

// exposeAll makes a read list of parts at their positions.
func (p *peer) exposeAll(at []uint32, parts ...[]byte) (l []wire.ReadSegment, err error) {
	for i, b := range parts {
		s, err := p.expose(i*100_000, b)
		if err != nil {
			return nil, err
		}
		l = append(l, wire.ReadSegment{Position: at[i], Segment: s})
	}
	return l, nil
}

// wantDone takes the next message, which is to be RDMA_DONE.
func (p *peer) wantDone(xid uint32) error {
	d, err := p.call()
	if err != nil {
		return err
	}
	if d.Proc != wire.ProcDone || d.XID != xid || len(d.body) != 0 {
		return fmt.Errorf("got %+v, want RDMA_DONE for %#x", d, xid)
	}
	return nil
}

// TestRequesterPulls answers with read chunks of every form, good and bad.
func TestRequesterPulls(t *testing.T) {
	data := testPattern(9000)
	roundup := []byte{0, 0, 0, 0}
	for _, c := range []struct {
		name  string
		n     int // what the results say
		proc  wire.Proc
		at    []uint32
		parts [][]byte
		ok    bool
	}{
		{"one segment", 9000, wire.ProcMsg, []uint32{28}, [][]byte{data}, true},
		{"several", 9000, wire.ProcMsg, []uint32{28, 28, 28}, [][]byte{data[:1], data[1:5000], data[5000:]}, true},
		{"ragged", 8999, wire.ProcMsg, []uint32{28}, [][]byte{data[:8999]}, true},
		{"with its roundup", 8999, wire.ProcMsg, []uint32{28, 28}, [][]byte{data[:8999], roundup[:1]}, true},
		{"roundup as a chunk of its own", 8998, wire.ProcMsg, []uint32{28, 28 + 8998}, [][]byte{data[:8998], roundup[:2]}, true},
		{"Position Zero", 9000, wire.ProcNoMsg, []uint32{0, 28}, [][]byte{nil, data}, true},
		{"all at Position Zero", 9000, wire.ProcNoMsg, []uint32{0, 0}, [][]byte{nil, data}, true},
		{"a byte too few", 9000, wire.ProcMsg, []uint32{28}, [][]byte{data[:8999]}, false},
		{"a byte too many", 8999, wire.ProcMsg, []uint32{28, 28}, [][]byte{data[:8999], roundup[:2]}, false},
		{"misaligned", 9000, wire.ProcMsg, []uint32{27}, [][]byte{data}, false},
		{"where no item is", 9000, wire.ProcMsg, []uint32{24}, [][]byte{data}, false},
		{"past the end", 9000, wire.ProcMsg, []uint32{32}, [][]byte{data}, false},
		{"Position Zero in RDMA_MSG", 9000, wire.ProcMsg, []uint32{0}, [][]byte{data}, false},
		{"RDMA_NOMSG without Position Zero", 9000, wire.ProcNoMsg, []uint32{28}, [][]byte{data}, false},
		{"more than the call allows", 9000, wire.ProcMsg, []uint32{28, 28}, [][]byte{data, data}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := startPeer(t, peerSizes(1024), func(p *peer) error {
				q, err := p.call()
				if err != nil {
					return err
				}
				if len(q.Lists.Write) > 0 || q.Lists.Reply != nil {
					return fmt.Errorf("chunks offered: %+v", q.Lists)
				}
				body := rpcAccepted(q.XID, uint32(c.n))
				parts := append([][]byte{}, c.parts...)
				if c.proc == wire.ProcNoMsg && parts[0] == nil {
					parts[0], body = body, nil
				}
				l, err := p.exposeAll(c.at, parts...)
				if err != nil {
					return err
				}
				if err := p.send(append(q.header(c.proc, 16, wire.Lists{Read: l}), body...)); err != nil {
					return err
				}
				if err := p.wantDone(q.XID); err != nil {
					return err
				}
				return answerAll(5)(p)
			})
			r := dialPeer(t, addr, func(c *DialerConfig) { c.ReadReplies = true })
			v, got := mem.Vec{r.arena.Seg(0, 4000), r.arena.Seg(5000, 5000)}, 0
			err := r.do(within(t, patience), readCall(v, &got))
			if c.ok {
				b := make([]byte, c.n)
				v.CopyOut(0, b)
				if err != nil || got != c.n || !bytes.Equal(b, data[:c.n]) {
					t.Errorf("%d, %v", got, err)
				}
			} else {
				wantFate(t, err, transport.Answered, transport.ErrProtocol)
			}
			wantAlive(t, r)
		})
	}
}

// TestRequesterPullsNothing has a reply whose read chunk has no bytes.
func TestRequesterPullsNothing(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			b := append(q.header(wire.ProcMsg, 16, wire.Lists{Read: []wire.ReadSegment{{Position: 28}}}), rpcAccepted(q.XID, 0)...)
			if err := p.send(b); err != nil {
				return err
			}
			if err := p.wantDone(q.XID); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.ReadReplies = true })
	got := -1
	if err := r.do(within(t, patience), readCall(mem.Vec{r.arena.Seg(0, 4000)}, &got)); err != nil || got != 0 {
		t.Errorf("%d, %v", got, err)
	}
}

// TestDoneKeepsTheCredit sees no call between a reply by read chunks and its
// RDMA_DONE when there is one credit.
func TestDoneKeepsTheCredit(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			l, err := p.exposeAll([]uint32{28}, testPattern(3000))
			if err != nil {
				return err
			}
			if err := p.send(append(q.header(wire.ProcMsg, 1, wire.Lists{Read: l}), rpcAccepted(q.XID, 3000)...)); err != nil {
				return err
			}
			if err := p.wantDone(q.XID); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.ReadReplies = true })
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			got := 0
			v := mem.Vec{r.arena.Seg(i*4096, 3000)}
			for n := range 10 {
				if err := r.Exchange(within(t, patience), uint32(i<<8|n), readCall(v, &got)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// TestDoneForLateReply sends RDMA_DONE for calls given up before their reply by
// read chunks came.
func TestDoneForLateReply(t *testing.T) {
	release, done := make(chan struct{}), make(chan error, 1)
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		<-release
		l, err := p.exposeAll([]uint32{28}, testPattern(3000))
		if err == nil {
			err = p.send(append(q.header(wire.ProcMsg, 16, wire.Lists{Read: l}), rpcAccepted(q.XID, 3000)...))
		}
		if err == nil {
			err = p.wantDone(q.XID)
		}
		done <- err
		return answerAll(5)(p)
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.ReadReplies = true })
	ctx, cancel := context.WithCancel(within(t, patience))
	got := 0
	gone := make(chan error, 1)
	runCall := func() { gone <- r.do(ctx, readCall(mem.Vec{r.arena.Seg(0, 3000)}, &got)) }
	go runCall()
	eventually(t, "the call is out", func() bool { return r.d.Stats().Calls == 1 })
	cancel()
	wantFate(t, <-gone, transport.Unknown, context.Canceled)
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantAlive(t, r)
}

// TestReadReplyUnwanted: without the option a read list in a reply is an error.
func TestReadReplyUnwanted(t *testing.T) {
	for _, proc := range []wire.Proc{wire.ProcMsg, wire.ProcNoMsg} {
		ctx, cancel := context.WithCancel(within(t, patience))
		addr := startPeer(t, peerSizes(1024), func(p *peer) error {
			q, err := p.call()
			if err != nil {
				return err
			}
			at := []uint32{28}
			if proc == wire.ProcNoMsg {
				at[0] = 0
			}
			l, err := p.exposeAll(at, rpcAccepted(q.XID, 5))
			if err == nil {
				err = p.send(append(q.header(proc, 16, wire.Lists{Read: l}), rpcAccepted(q.XID, 5)...))
			}
			if err == nil && proc == wire.ProcNoMsg {
				cancel() // it is dropped like a call back
			}
			return errors.Join(err, answerAll(5)(p))
		})
		r := dialPeer(t, addr, nil)
		var te *transport.Error
		if err := r.do(ctx, pingCall(nil)); !errors.As(err, &te) || te.Fate == transport.NotSent {
			t.Errorf("procedure %d: %v", proc, err)
		}
		eventually(t, "it is counted", func() bool { return r.d.Stats().BadReplies == 1 })
	}
}
