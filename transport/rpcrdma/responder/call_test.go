package responder

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

const (
	read        = verbs.OpRead
	write       = verbs.OpWrite
	send        = verbs.OpSend
	sendInvalid = verbs.OpSendInvalidate
)

// msg is a header of version 1.
func msg(l wire.Lists) wire.Msg {
	return wire.Msg{Header: wire.Header{XID: 5, Version: wire.Version1, Credits: 16, Proc: wire.ProcMsg}, Lists: l}
}

// noMsg is that of a call that is in a chunk.
func noMsg(l wire.Lists) wire.Msg {
	m := msg(l)
	m.Proc = wire.ProcNoMsg
	return m
}

// msg2 is a header of version 2.
func msg2(l wire.Lists) wire.Msg {
	m := msg(l)
	m.Version, m.Direction = wire.Version2, wire.DirCall
	return m
}

// backward has the rules of the other direction.
func backward(_ *scriptHost, r *Rules) {
	r.Chunks1, r.Invalidate1, r.Unwritten = false, false, true
}

// TestReplies carries out calls of every kind: what is posted for them, and what they are answered.
func TestReplies(t *testing.T) {
	data := pattern(5001)
	crc := crc32.ChecksumIEEE(data)
	long := rpc(procSum, 5001)
	long = append(append(long, data...), 0, 0, 0)
	long = append(long, words(0xbbbb)...)
	list := func(n int) (ws []uint32) {
		for i := range n {
			ws = append(ws, uint32(i))
		}
		return ws
	}
	fill := func(n int) []byte {
		return append(append(accepted(0, uint32(n)), pattern(n)...), make([]byte, -n&3)...)
	}
	for _, c := range []struct {
		name   string
		change func(*scriptHost, *Rules)
		call   func(h *scriptHost) (wire.Msg, []byte)
		body   []byte // of the reply
		ops    []verbs.Op
		check  func(t *testing.T, h *scriptHost, m wire.Msg)
	}{
		{"null", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procNull) }, accepted(0), []verbs.Op{send}, nil},
		{"the handler fails", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procFail) }, accepted(5), []verbs.Op{send}, nil},
		{"arguments cut short", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procSum, 8, 1) }, accepted(4), []verbs.Op{send}, nil},
		{"read chunk", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(44, data, 5001)}), append(rpc(procSum, 5001), words(0xbbbb)...)
		}, accepted(0, crc), []verbs.Op{read, read, sendInvalid}, func(t *testing.T, h *scriptHost, _ wire.Msg) {
			if h.rkey != 0x100 || h.count.BytesRead.Load() != 5001 || h.count.ReadChunks.Load() != 1 {
				t.Errorf("key %#x invalidated, counted %+v", h.rkey, &h.count)
			}
		}},
		{"read chunk of segments", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(44, data, 1, 2000, 3000)}), append(rpc(procSum, 5001), words(0xbbbb)...)
		}, accepted(0, crc), []verbs.Op{read, read, read, send}, nil},
		{"position zero", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return noMsg(wire.Lists{Read: h.open(0, long, len(long))}), nil
		}, accepted(0, crc), []verbs.Op{read, read, sendInvalid}, func(t *testing.T, h *scriptHost, _ wire.Msg) {
			if h.count.PositionZero.Load() != 1 {
				t.Errorf("counted %+v", &h.count)
			}
		}},
		{"position zero and a read chunk", nil, func(h *scriptHost) (wire.Msg, []byte) {
			head := append(rpc(procSum, 5001), words(0xbbbb)...)
			return noMsg(wire.Lists{Read: append(h.open(0, head, len(head)), h.open(44, data, 5001)...)}), nil
		}, accepted(0, crc), []verbs.Op{read, read, read, send}, nil},
		{"payload inline", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procFill, 101) },
			append(fill(101), words(0xcccc)...), []verbs.Op{send}, nil},
		{"write chunk", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Write: []wire.Chunk{h.offer(6000)}}), rpc(procFill, 5001)
		}, accepted(0, 5001, 0xcccc), []verbs.Op{write, write, sendInvalid}, func(t *testing.T, h *scriptHost, m wire.Msg) {
			if w := m.Lists.Write; len(w) != 1 || w[0].Len() != 5001 || !bytes.Equal(h.got(w[0]), data) {
				t.Errorf("write list %+v", w)
			}
		}},
		{"write chunk of segments", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Write: []wire.Chunk{h.offer(1, 3000, 2000, 10)}}), rpc(procFill, 5001)
		}, accepted(0, 5001, 0xcccc), []verbs.Op{write, write, write, send}, func(t *testing.T, h *scriptHost, m wire.Msg) {
			if w := m.Lists.Write; len(w) != 1 || w[0][3].Length != 0 || !bytes.Equal(h.got(w[0]), data) {
				t.Errorf("write list %+v", w)
			}
		}},
		{"write chunk for nothing", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Write: []wire.Chunk{h.offer(6000)}}), rpc(procNull)
		}, accepted(0), []verbs.Op{sendInvalid}, func(t *testing.T, _ *scriptHost, m wire.Msg) {
			if w := m.Lists.Write; len(w) != 1 || w[0].Len() != 0 {
				t.Errorf("write list %+v", w)
			}
		}},
		{"reply chunk", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Reply: h.offer(3000, 3000)}), rpc(procList, 1000)
		}, nil, []verbs.Op{write, write, send}, func(t *testing.T, h *scriptHost, m wire.Msg) {
			if m.Proc != wire.ProcNoMsg || !bytes.Equal(h.got(m.Lists.Reply), accepted(0, list(1000)...)) {
				t.Errorf("header %+v", m)
			}
		}},
		{"reply chunk with a payload", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Reply: h.offer(6000)}), rpc(procFill, 5001)
		}, nil, []verbs.Op{write, write, sendInvalid}, func(t *testing.T, h *scriptHost, m wire.Msg) {
			if !bytes.Equal(h.got(m.Lists.Reply), append(fill(5001), words(0xcccc)...)) {
				t.Errorf("header %+v", m)
			}
		}},
		{"reply chunk not needed", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Reply: h.offer(6000)}), rpc(procList, 3)
		}, accepted(0, list(3)...), []verbs.Op{sendInvalid}, func(t *testing.T, _ *scriptHost, m wire.Msg) {
			if m.Lists.Reply.Len() != 0 {
				t.Errorf("reply chunk %+v", m.Lists.Reply)
			}
		}},
		{"no remote invalidation", func(_ *scriptHost, r *Rules) { r.Invalidate1 = false }, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Reply: h.offer(6000)}), rpc(procNull)
		}, accepted(0), []verbs.Op{send}, nil},
		{"version 2", nil, func(h *scriptHost) (wire.Msg, []byte) {
			m := msg2(wire.Lists{Write: []wire.Chunk{h.offer(6000)}, Reply: h.offer(100)})
			m.InvHandle = 0x100
			return m, rpc(procFill, 5001)
		}, accepted(0, 5001, 0xcccc), []verbs.Op{write, write, sendInvalid}, func(t *testing.T, h *scriptHost, m wire.Msg) {
			if h.rkey != 0x100 || m.Version != wire.Version2 || m.Direction != wire.DirReply {
				t.Errorf("key %#x invalidated, header %+v", h.rkey, m)
			}
		}},
		{"backward", backward, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procFill, 100) },
			append(fill(100), words(0xcccc)...), []verbs.Op{send}, nil},
		{"backward, long both ways", backward, func(h *scriptHost) (wire.Msg, []byte) {
			m := msg2(wire.Lists{Read: h.open(0, rpc(procFill, 5001), 44), Write: []wire.Chunk{h.offer(6000)}, Reply: h.offer(6000)})
			m.Proc = wire.ProcNoMsg
			return m, nil
		}, nil, []verbs.Op{read, write, write, send}, func(t *testing.T, h *scriptHost, m wire.Msg) {
			if m.Lists.Write[0].Len() != 0 || !bytes.Equal(h.got(m.Lists.Reply), append(fill(5001), words(0xcccc)...)) {
				t.Errorf("header %+v", m)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, c.change)
			m, body := c.call(h)
			h.carryOut(m, body)
			if h.abandoned != nil {
				t.Fatal(h.abandoned)
			}
			got := h.wantReply(c.body)
			wantOps(t, h.ops, c.ops...)
			if h.count.Reads.Load() > 0 && !h.awaited {
				t.Error("the handler ran before the reads were done")
			}
			if h.count.Replies.Load() != 1 || h.count.Sent.Load() != uint64(len(h.sent)) {
				t.Errorf("counted %+v", &h.count)
			}
			if c.check != nil {
				c.check(t, h, got)
			}
		})
	}
}

// TestRefusals: calls that are not carried out, or whose reply cannot be sent, are answered with an error, and nothing is
// read or written for them.
func TestRefusals(t *testing.T) {
	data := pattern(100)
	two := func(m wire.Msg) wire.Msg {
		m.Version, m.Direction = wire.Version2, wire.DirCall
		return m
	}
	for _, c := range []struct {
		name   string
		change func(*scriptHost, *Rules)
		call   func(h *scriptHost) (wire.Msg, []byte)
		code   wire.ErrCode // in version 2; ERR_CHUNK in version 1
		fault  wire.Fault
	}{
		{"misaligned read chunk", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(45, data, 100)}), rpc(procSum, 100, 0xbbbb)
		}, wire.ErrBadXDR, wire.Fault{}},
		{"read chunk beyond the message", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(400, data, 100)}), rpc(procSum, 100, 0xbbbb)
		}, wire.ErrBadXDR, wire.Fault{}},
		{"position zero beside a message", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(0, data, 100)}), rpc(procNull)
		}, wire.ErrBadXDR, wire.Fault{}},
		{"nowhere a message", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return noMsg(wire.Lists{Read: h.open(4, data, 100)}), nil
		}, wire.ErrBadXDR, wire.Fault{}},
		{"too much to pull", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(44, nil, 64<<10+1)}), rpc(procSum, 64<<10+1, 0xbbbb)
		}, wire.ErrBadXDR, wire.Fault{}},
		{"too many read chunks", nil, func(h *scriptHost) (wire.Msg, []byte) {
			var l []wire.ReadSegment
			for i := range 5 {
				l = append(l, h.open(4*i+4, data, 4)...)
			}
			return msg(wire.Lists{Read: l}), rpc(procNull)
		}, wire.ErrReadChunks, wire.Fault{Max: 4}},
		{"read chunk where none is served", func(h *scriptHost, _ *Rules) { h.deaf = true }, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(44, data, 100)}), rpc(procSum, 100, 0xbbbb)
		}, wire.ErrReadChunks, wire.Fault{}},
		{"lists too long to return", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Write: []wire.Chunk{make(wire.Chunk, 64)}}), rpc(procNull)
		}, wire.ErrBadXDR, wire.Fault{}},
		{"another XID in the message", nil, func(*scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{}), append(words(6), rpc(procNull)[4:]...)
		}, wire.ErrBadXDR, wire.Fault{}},
		{"message without end", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procNull)[:4] }, wire.ErrBadXDR, wire.Fault{}},
		{"RPC header cut short", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procNull)[:36] }, wire.ErrBadXDR, wire.Fault{}},
		{"write chunk too small", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Write: []wire.Chunk{h.offer(50)}}), rpc(procFill, 100)
		}, wire.ErrWriteResource, wire.Fault{Index: 1, Needed: 100}},
		{"no reply chunk", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procList, 1000) },
			wire.ErrReplyResource, wire.Fault{Needed: 4024}},
		{"reply chunk too small", nil, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Reply: h.offer(4000)}), rpc(procList, 1000)
		}, wire.ErrReplyResource, wire.Fault{Needed: 4024}},
		{"a reply longer than any", func(_ *scriptHost, r *Rules) { r.MaxReply = 4000 }, func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Reply: h.offer(8000)}), rpc(procList, 1000)
		}, wire.ErrSystem, wire.Fault{}},
	} {
		for _, version := range []uint32{wire.Version1, wire.Version2} {
			t.Run(c.name, func(t *testing.T) {
				h := newHost(t, c.change)
				m, body := c.call(h)
				code, fault := wire.ErrChunk, wire.Fault{}
				if version == wire.Version2 {
					m, code, fault = two(m), c.code, c.fault
				}
				h.carryOut(m, body)
				if h.abandoned != nil {
					t.Fatal(h.abandoned)
				}
				h.wantError(code, fault)
				wantOps(t, h.ops, send)
				if h.count.ChunkErrors.Load() != 1 || h.count.Replies.Load() != 0 {
					t.Errorf("counted %+v", &h.count)
				}
			})
		}
	}
}

// TestBackwardChunks1: no call in the backward direction has chunks in version 1.
func TestBackwardChunks1(t *testing.T) {
	for _, what := range []string{"read", "write", "reply", "nomsg"} {
		t.Run(what, func(t *testing.T) {
			h := newHost(t, backward)
			m := map[string]wire.Msg{
				"read": msg(wire.Lists{Read: h.open(44, nil, 4)}), "write": msg(wire.Lists{Write: []wire.Chunk{h.offer(4)}}),
				"reply": msg(wire.Lists{Reply: h.offer(4)}), "nomsg": noMsg(wire.Lists{Read: h.open(0, nil, 44)}),
			}[what]
			h.carryOut(m, rpc(procNull))
			h.wantError(wire.ErrChunk, wire.Fault{})
			wantOps(t, h.ops, send)
		})
	}
}

// TestAbandoned: what leaves a call without an answer ends the connection, and gives back what the call has.
func TestAbandoned(t *testing.T) {
	sum := func(h *scriptHost) (wire.Msg, []byte) {
		return msg(wire.Lists{Read: h.open(44, nil, 5000)}), append(rpc(procSum, 5000), words(0xbbbb)...)
	}
	for _, c := range []struct {
		name   string
		change func(*scriptHost, *Rules)
		call   func(h *scriptHost) (wire.Msg, []byte)
		err    error
		ops    []verbs.Op
	}{
		{"the first read", func(h *scriptHost, _ *Rules) { h.lost = errLost }, sum, errLost, nil},
		{"the second read", func(h *scriptHost, _ *Rules) { h.lost, h.lostAfter = errLost, 1 }, sum, errLost, []verbs.Op{read}},
		{"the reply", func(h *scriptHost, _ *Rules) { h.lost, h.lostAfter = errLost, 9 }, sum, errLost, []verbs.Op{read, read}},
		{"no memory", func(h *scriptHost, _ *Rules) { h.noMemory = longbuf.ErrEnded }, sum, longbuf.ErrEnded, nil},
		{"no reply", nil, func(*scriptHost) (wire.Msg, []byte) { return msg(wire.Lists{}), rpc(procLose) }, errNoReply, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, c.change)
			m, body := c.call(h)
			h.carryOut(m, body)
			if !errors.Is(h.abandoned, c.err) || h.sent != nil {
				t.Errorf("abandoned with %v, sent %x", h.abandoned, h.sent)
			}
			wantOps(t, h.ops, c.ops...)
		})
	}
}

// TestCallTruncated cuts calls of each kind at every byte: each is answered once, with a reply or an error, and gives back
// what it has.
func TestCallTruncated(t *testing.T) {
	data := pattern(500)
	for name, call := range map[string]func(h *scriptHost) (wire.Msg, []byte){
		"inline": func(*scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{}), append(append(rpc(procSum, 500), data...), words(0xbbbb)...)
		},
		"read chunk": func(h *scriptHost) (wire.Msg, []byte) {
			return msg(wire.Lists{Read: h.open(44, data, 500)}), append(rpc(procSum, 500), words(0xbbbb)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, whole := call(newHost(t, nil))
			for n := range len(whole) + 1 {
				h := newHost(t, nil)
				m, body := call(h)
				h.carryOut(m, body[:n])
				good := bytes.HasSuffix(h.sent, accepted(0, crc32.ChecksumIEEE(data)))
				if h.abandoned != nil || h.grants != 1 || good != (n == len(whole)) {
					t.Errorf("%d of %d bytes: abandoned with %v, sent %x", n, len(whole), h.abandoned, h.sent)
				}
			}
		})
	}
	t.Run("position zero", func(t *testing.T) {
		whole := append(append(rpc(procSum, 500), data...), words(0xbbbb)...)
		for n := 1; n <= len(whole); n++ {
			h := newHost(t, nil)
			h.carryOut(noMsg(wire.Lists{Read: h.open(0, whole, n)}), nil)
			good := bytes.HasSuffix(h.sent, accepted(0, crc32.ChecksumIEEE(data)))
			if h.abandoned != nil || h.grants != 1 || good != (n == len(whole)) {
				t.Errorf("%d of %d bytes: abandoned with %v, sent %x", n, len(whole), h.abandoned, h.sent)
			}
		}
	})
}
