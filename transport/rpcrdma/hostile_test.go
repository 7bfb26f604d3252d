package rpcrdma

import (
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// answersFirst answers the first call with what reply makes of it and all others well.
func answersFirst(reply func(q *peerCall) []byte) func(p *peer) error {
	return func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(reply(q)); err != nil {
			return err
		}
		return answerAll(5)(p)
	}
}

// wantAlive makes a call that must succeed.
func wantAlive(t *testing.T, r *rig) {
	t.Helper()
	var got uint32
	if err := r.do(within(t, patience), pingCall(&got)); err != nil || got != 5 {
		t.Errorf("the next call: %d, %v", got, err)
	}
}

// withLength is chunk c with one length changed.
func withLength(c wire.Chunk, i int, n uint32) wire.Chunk {
	c = append(wire.Chunk{}, c...)
	c[i].Length = n
	return c
}

// TestBadReplies answers calls with replies that must fail the call and leave
// the connection as it was.
func TestBadReplies(t *testing.T) {
	msg := func(q *peerCall, l wire.Lists, results ...uint32) []byte {
		return append(q.header(wire.ProcMsg, 16, l), rpcAccepted(q.XID, results...)...)
	}
	null := func(a *mem.Arena) *transport.Call { return pingCall(nil) }
	read := func(a *mem.Arena) *transport.Call {
		n := 0
		return readCall(mem.Vec{a.Seg(0, 8192), a.Seg(16384, 8192)}, &n)
	}
	list := func(a *mem.Arena) *transport.Call {
		c := pingCall(nil)
		c.ReplyMax = 10000
		return c
	}
	seg := wire.Segment{Handle: 1, Length: 4, Offset: 4}
	for _, c := range []struct {
		name  string
		call  func(a *mem.Arena) *transport.Call
		reply func(q *peerCall) []byte
	}{
		{"ERR_VERS", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 1, 2, 3) }},
		{"ERR_CHUNK", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 2) }},
		{"ERR_CHUNK for a read", read, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 2) }},
		{"unknown error", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 3, 0, 0) }},
		{"version 2", null, func(q *peerCall) []byte { return xdrWords(q.XID, 2, 16, 0, 0, 0, 0) }},
		{"unknown procedure", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 9, 0, 0, 0) }},
		{"truncated list", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 0, 0, 1, 2, 9, 9) }},
		{"absurd list", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 0, 0, 1, 0xfffffff0, 9, 9) }},
		{"long reply without chunks", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 1, 0, 0, 0) }},
		{"read list", null, func(q *peerCall) []byte {
			return msg(q, wire.Lists{Read: []wire.ReadSegment{{Position: 4, Segment: seg}}}, 5)
		}},
		{"write list not offered", null, func(q *peerCall) []byte { return msg(q, wire.Lists{Write: []wire.Chunk{{seg}}}, 5) }},
		{"reply chunk not offered", null, func(q *peerCall) []byte { return msg(q, wire.Lists{Reply: wire.Chunk{seg}}, 5) }},
		{"long reply not offered", null, func(q *peerCall) []byte { return q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: wire.Chunk{seg}}) }},
		{"no message", null, func(q *peerCall) []byte { return q.header(wire.ProcMsg, 16, wire.Lists{}) }},
		{"half a message", null, func(q *peerCall) []byte { return msg(q, wire.Lists{})[:28+12] }},
		{"message to another call", null, func(q *peerCall) []byte {
			return append(q.header(wire.ProcMsg, 16, wire.Lists{}), rpcAccepted(q.XID+1, 5)...)
		}},
		{"message of no direction", null, func(q *peerCall) []byte {
			return append(q.header(wire.ProcMsg, 16, wire.Lists{}), xdrWords(q.XID, 2, 0, 0, 0, 0, 5)...)
		}},
		{"no results", null, func(q *peerCall) []byte { return msg(q, wire.Lists{}) }},
		{"results too long", null, func(q *peerCall) []byte { return msg(q, wire.Lists{}, 5, 5) }},
		{"absurd verifier", null, func(q *peerCall) []byte {
			return append(q.header(wire.ProcMsg, 16, wire.Lists{}), xdrWords(q.XID, 1, 0, 0, 0xffffffff, 0)...)
		}},

		{"two write chunks for one", read, func(q *peerCall) []byte {
			return msg(q, wire.Lists{Write: []wire.Chunk{q.Lists.Write[0], q.Lists.Write[0]}}, 16384)
		}},
		{"a segment too few", read, func(q *peerCall) []byte { return msg(q, wire.Lists{Write: []wire.Chunk{q.Lists.Write[0][:1]}}, 8192) }},
		{"a segment too many", read, func(q *peerCall) []byte {
			return msg(q, wire.Lists{Write: []wire.Chunk{append(q.Lists.Write[0], seg)}}, 8192)
		}},
		{"an empty write chunk", read, func(q *peerCall) []byte { return msg(q, wire.Lists{Write: []wire.Chunk{{}}}, 0) }},
		{"a segment longer than offered", read, func(q *peerCall) []byte {
			return msg(q, wire.Lists{Write: []wire.Chunk{withLength(q.Lists.Write[0], 1, 8193)}}, 16385)
		}},
		{"a segment of 4 GiB", read, func(q *peerCall) []byte {
			return msg(q, wire.Lists{Write: []wire.Chunk{withLength(q.Lists.Write[0], 0, 0xffffffff)}}, 8192)
		}},
		{"a hole", read, func(q *peerCall) []byte {
			return msg(q, wire.Lists{Write: []wire.Chunk{withLength(q.Lists.Write[0], 0, 8191)}}, 16383)
		}},
		{"more placed than returned", read, func(q *peerCall) []byte { return msg(q, wire.Lists{Write: q.Lists.Write}, 100) }},
		{"less placed than returned", read, func(q *peerCall) []byte {
			return msg(q, wire.Lists{Write: []wire.Chunk{withLength(withLength(q.Lists.Write[0], 1, 0), 0, 100)}}, 8192)
		}},
		{"more returned than asked for", read, func(q *peerCall) []byte { return msg(q, wire.Lists{Write: q.Lists.Write}, 16385) }},
		{"absurd length inline", read, func(q *peerCall) []byte { return msg(q, wire.Lists{}, 0xffffffff) }},
		{"reply chunk for write chunk", read, func(q *peerCall) []byte {
			return q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: q.Lists.Write[0]})
		}},

		{"empty long reply", list, func(q *peerCall) []byte {
			return q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: withLength(q.Lists.Reply, 0, 0)})
		}},
		{"long reply longer than offered", list, func(q *peerCall) []byte {
			return q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: withLength(q.Lists.Reply, 0, q.Lists.Reply[0].Length+1)})
		}},
		{"long reply in two segments", list, func(q *peerCall) []byte {
			return q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: append(q.Lists.Reply, seg)})
		}},
		{"long reply of what was there before", list, func(q *peerCall) []byte {
			return q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: q.Lists.Reply})
		}},
		{"long reply in the write list", list, func(q *peerCall) []byte {
			return q.header(wire.ProcNoMsg, 16, wire.Lists{Write: []wire.Chunk{q.Lists.Reply}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := dialPeer(t, startPeer(t, peerSizes(1024), answersFirst(c.reply)), nil)
			wantFate(t, r.do(within(t, patience), c.call(r.arena)), transport.Answered, transport.ErrProtocol)
			wantAlive(t, r)
			if st := r.d.long.Stats(); st.Used != 0 || st.Leases != 0 {
				t.Errorf("long buffers: %+v", st)
			}
		})
	}
}

func TestReplyErrorNamesVersions(t *testing.T) {
	r := dialPeer(t, startPeer(t, nil, answersFirst(func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 1, 2, 3) })), nil)
	var re *ReplyError
	if err := r.do(within(t, patience), pingCall(nil)); !errors.As(err, &re) || *re != (ReplyError{Version: Version1, Code: wire.ErrVers, Low: 2, High: 3}) {
		t.Errorf("got %v", err)
	}
}

// TestMessagesDropped sends messages before and after the true reply that must
// change nothing.
func TestMessagesDropped(t *testing.T) {
	seg := wire.Segment{Handle: 1, Length: 4, Offset: 4}
	for _, c := range []struct {
		name  string
		noise func(q *peerCall) []byte
	}{
		{"nothing", func(q *peerCall) []byte { return nil }},
		{"three bytes", func(q *peerCall) []byte { return []byte{1, 2, 3} }},
		{"half a header", func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 0, 0) }},
		{"short unknown error", func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 9) }},
		{"unknown XID", func(q *peerCall) []byte {
			return append((&peerCall{Header: Header{XID: 99}}).header(wire.ProcMsg, 1, wire.Lists{}), rpcAccepted(99, 6)...)
		}},
		{"error to an unknown XID", func(q *peerCall) []byte { return xdrWords(99, 1, 16, 4, 2) }},
		{"RDMA_DONE", func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 3, 0, 0, 0) }},
		{"a call back", func(q *peerCall) []byte {
			return append(q.header(wire.ProcMsg, 1, wire.Lists{}), xdrWords(q.XID, 0, 2, 0x40000000, 1, 0, 0, 0, 0, 0)...)
		}},
		{"a long call back", func(q *peerCall) []byte {
			return q.header(wire.ProcNoMsg, 1, wire.Lists{Read: []wire.ReadSegment{{Segment: seg}}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := startPeer(t, peerSizes(1024), func(p *peer) error {
				for {
					q, err := p.call()
					if err != nil {
						return err
					}
					for _, b := range [][]byte{c.noise(q), q.inline(5), c.noise(q)} {
						if err := p.send(b); err != nil {
							return err
						}
					}
				}
			})
			r := dialPeer(t, addr, nil)
			for range 50 { // more often than there are receives to spare
				wantAlive(t, r)
			}
		})
	}
}

func TestDuplicateReplies(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			for _, v := range []uint32{5, 6, 7} {
				if err := p.send(q.inline(v)); err != nil {
					return err
				}
			}
		}
	})
	r := dialPeer(t, addr, nil)
	for range 50 {
		wantAlive(t, r)
	}
	if s := r.d.Stats(); s.Replies != 50 || s.BadXIDs < 90 {
		t.Errorf("statistics %+v", s)
	}
}

// TestGarbageEndsTheLink sends garbage: no more of it than there are receives.
func TestGarbageEndsTheLink(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		if _, err := p.call(); err != nil {
			return err
		}
		for range requester.MaxUseless + 1 {
			if err := p.send(xdrWords(1, 2, 3, 4, 5, 6, 7, 8)); err != nil {
				return err
			}
		}
		return nil
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.Credits = 2 * requester.MaxUseless })
	wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Unknown, transport.ErrProtocol)
	<-r.Done()
	if !errors.Is(r.Err(), transport.ErrProtocol) {
		t.Errorf("link ended with %v", r.Err())
	}
	wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.NotSent, transport.ErrProtocol)
}

// TestFlood sends without end, more than there can be receives for.
func TestFlood(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		if _, err := p.call(); err != nil {
			return err
		}
		for {
			if err := p.send(xdrWords(1, 1, 3, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, nil)
	wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Unknown, nil)
	<-r.Done()
}
