package requester

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// header is that of an answer to q that grants so many credits.
func header(q *wire.Msg, proc wire.Proc, credits uint32) wire.Header {
	return wire.Header{XID: q.XID, Version: q.Version, Credits: credits, Proc: proc}
}

func encode(m wire.Message, body []byte) []byte {
	return append(append([]byte(nil), wire.Encode(make([]byte, bufSize), m)...), body...)
}

// reply answers with a reply whose lists change has filled in, and results. It invalidates the first of the call's keys.
func reply(change func(q, m *wire.Msg), keys int, results ...uint32) answer {
	return func(c *scriptConn, q *wire.Msg) []byte {
		m := wire.Msg{Header: header(q, wire.ProcMsg, 8), Direction: wire.DirReply}
		if change != nil {
			change(q, &m)
		}
		for _, key := range q.Lists.Keys(nil)[:keys] {
			delete(c.bound, key)
			c.batch.Begin()
			c.batch.Invalidated(q.XID, key)
			_, _ = c.batch.End()
		}
		if m.Proc == wire.ProcNoMsg {
			copy(c.arena.Bytes()[q.Lists.Reply[0].Offset:], accepted(q.XID, results...))
			return encode(&m, nil)
		}
		return encode(&m, accepted(q.XID, results...))
	}
}

// refuse answers with an error.
func refuse(code wire.ErrCode, f wire.Fault) answer {
	return func(_ *scriptConn, q *wire.Msg) []byte {
		return encode(&wire.Error{Header: header(q, wire.ProcError, 8), Code: code, Low: 1, High: 1, Fault: f}, nil)
	}
}

// raw answers with words behind the XID.
func raw(ws ...uint32) answer {
	return func(_ *scriptConn, q *wire.Msg) []byte { return words(append([]uint32{q.XID}, ws...)...) }
}

// written returns the write list with so many bytes in its chunk.
func written(n int) func(q, m *wire.Msg) {
	return func(q, m *wire.Msg) {
		m.Lists.Write = []wire.Chunk{append(wire.Chunk(nil), q.Lists.Write[0]...)}
		m.Lists.Write[0].Fill(n)
	}
}

// inReplyChunk puts a reply of n bytes in the reply chunk.
func inReplyChunk(n int) func(q, m *wire.Msg) {
	return func(q, m *wire.Msg) {
		m.Proc, m.Lists.Reply = wire.ProcNoMsg, append(wire.Chunk(nil), q.Lists.Reply...)
		m.Lists.Reply.Fill(n)
	}
}

const (
	bind       = verbs.OpBind
	send       = verbs.OpSend
	invalidate = verbs.OpLocalInvalidate
)

// TestCalls makes one call of each kind on a scripted connection, which answers it in every way: what is posted, with which
// error the call ends, and that nothing of it is left.
func TestCalls(t *testing.T) {
	n := 0
	backward := func(r *Rules, terms *plan.Terms) {
		r.Copies, r.Patient, r.Resends, r.MaxLong = true, true, 0, 6000
		terms.NoDDP, terms.InlineOnly = true, true
	}
	general := func(r *Rules, terms *plan.Terms) {
		backward(r, terms)
		terms.Version, terms.InlineOnly, terms.MaxSegments = wire.Version2, false, 1
	}
	version2 := func(_ *Rules, terms *plan.Terms) { terms.Version = wire.Version2 }
	for _, c := range []struct {
		name   string
		change func(*Rules, *plan.Terms)
		call   func(a *mem.Arena) *transport.Call
		script []answer
		ops    []verbs.Op
		fate   transport.Fate // of an error
		err    error          // nil: none
	}{
		{"inline", nil, nil, []answer{reply(nil, 0, 5)}, []verbs.Op{send}, 0, nil},
		{"results too many", nil, nil, []answer{reply(nil, 0, 5, 6)}, []verbs.Op{send}, transport.Answered, errAny},
		{"ERR_CHUNK", nil, nil, []answer{refuse(wire.ErrChunk, wire.Fault{})}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},
		{"ERR_VERS", nil, nil, []answer{refuse(wire.ErrVers, wire.Fault{})}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},
		{"reply cut short", nil, nil, []answer{raw(1, 8, 0, 0, 0, 0, 7)}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},
		{"reply in another version", nil, nil, []answer{raw(2, 8, 0, 0, 0, 0, 0, 0)}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},
		{"header cut short", nil, nil, []answer{raw(1, 8, 0, 0, 1, 9)}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},
		{"useless first", nil, nil, []answer{raw(1, 8, 3), reply(func(q, m *wire.Msg) { m.XID++ }, 0), reply(nil, 0, 5)}, []verbs.Op{send}, 0, nil},
		{"connection lost", nil, nil, nil, []verbs.Op{send}, transport.Unknown, verbs.ErrClosed},

		{"write list", nil, fetch(&n, 5001), []answer{reply(written(5001), 0, 5001)}, []verbs.Op{bind, bind, send, invalidate, invalidate}, 0, nil},
		{"write list, one key dead", nil, fetch(&n, 5001), []answer{reply(written(5001), 1, 5001)}, []verbs.Op{bind, bind, send, invalidate}, 0, nil},
		{"write list, all keys dead", nil, fetch(&n, 5000), []answer{reply(written(5000), 1, 5000)}, []verbs.Op{bind, send}, 0, nil},
		{"write list absent", nil, fetch(&n, 5000), []answer{reply(nil, 1, 0)}, []verbs.Op{bind, send}, 0, nil},
		{"write list of two", nil, fetch(&n, 5000), []answer{reply(func(q, m *wire.Msg) {
			written(5000)(q, m)
			m.Lists.Write = append(m.Lists.Write, m.Lists.Write[0])
		}, 1, 5000)}, []verbs.Op{bind, send}, transport.Answered, transport.ErrProtocol},
		{"more than offered", nil, fetch(&n, 5000), []answer{reply(func(q, m *wire.Msg) {
			written(5000)(q, m)
			m.Lists.Write[0][0].Length++
		}, 1, 5001)}, []verbs.Op{bind, send}, transport.Answered, transport.ErrProtocol},
		{"a read list", nil, fetch(&n, 5000), []answer{reply(func(q, m *wire.Msg) {
			m.Lists.Read = []wire.ReadSegment{{Position: 8, Segment: wire.Segment{Handle: 1, Length: 4}}}
		}, 1, 5000)}, []verbs.Op{bind, send}, transport.Answered, transport.ErrProtocol},
		{"read list, connection lost", nil, fetch(&n, 5000), nil, []verbs.Op{bind, send}, transport.Unknown, verbs.ErrClosed},

		{"reply chunk", nil, func(*mem.Arena) *transport.Call { return list(8000) }, []answer{reply(inReplyChunk(28), 1, 5)}, []verbs.Op{bind, send}, 0, nil},
		{"reply chunk unused", nil, func(*mem.Arena) *transport.Call { return list(8000) }, []answer{reply(nil, 0, 5)}, []verbs.Op{bind, send, invalidate}, 0, nil},
		{"reply chunk not offered", nil, nil, []answer{raw(1, 8, 1, 0, 0, 1, 1, 7, 28, 0, 0)}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},

		{"small payload", nil, store(100), []answer{reply(nil, 0, 5)}, []verbs.Op{send}, 0, nil},
		{"payload inline", nil, store(3000), []answer{reply(nil, 0, 5)}, []verbs.Op{send}, 0, nil},
		{"read chunk", nil, store(8000), []answer{reply(nil, 1, 5)}, []verbs.Op{bind, send}, 0, nil},
		{"long call", nil, func(*mem.Arena) *transport.Call { return words32(2000) }, []answer{reply(nil, 1, 5)}, []verbs.Op{bind, send}, 0, nil},
		{"too long a call", nil, func(*mem.Arena) *transport.Call { return words32(20000) }, nil, nil, transport.NotSent, errAny},
		{"too large a payload", nil, store(1<<20 + 1), nil, nil, transport.NotSent, errAny},

		{"backward", backward, nil, []answer{reply(nil, 0, 5)}, []verbs.Op{send}, 0, nil},
		{"backward, too long", backward, func(*mem.Arena) *transport.Call { return words32(2000) }, nil, nil, transport.NotSent, ErrTooLong},
		{"backward, long", general, func(*mem.Arena) *transport.Call { return words32(1100) }, []answer{reply(nil, 0, 5)}, []verbs.Op{bind, send, invalidate}, 0, nil},
		{"backward, longer", general, func(*mem.Arena) *transport.Call { return words32(2000) }, nil, nil, transport.NotSent, ErrTooLong},
		{"backward, refused", general, nil, []answer{refuse(wire.ErrReplyResource, wire.Fault{Needed: 9000})}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},

		{"WRITE_CHUNKS", version2, fetch(&n, 5000), []answer{refuse(wire.ErrWriteChunks, wire.Fault{}), reply(inReplyChunk(36), 1, 4, 0)},
			[]verbs.Op{bind, send, invalidate, bind, send}, transport.Answered, errAny},
		{"REPLY_RESOURCE", version2, nil, []answer{refuse(wire.ErrReplyResource, wire.Fault{Needed: 9000}), reply(nil, 1, 5)},
			[]verbs.Op{send, bind, send}, 0, nil},
		{"REPLY_RESOURCE of too much", version2, nil, []answer{refuse(wire.ErrReplyResource, wire.Fault{Needed: 1 << 30})}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},
		{"SYSTEM", version2, nil, []answer{refuse(wire.ErrSystem, wire.Fault{})}, []verbs.Op{send}, transport.Answered, transport.ErrProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, 2, c.change)
			s.r.Connected(512, nil)
			s.script = c.script
			call := ping()
			if c.call != nil {
				call = c.call(s.arena)
			}
			err := s.r.Exchange(t.Context(), 7, call)
			switch {
			case c.err == nil && err != nil:
				t.Error(err)
			case c.err == errAny:
				if err == nil {
					t.Error("no error")
				}
			case c.err != nil:
				wantFate(t, err, c.fate, c.err)
			}
			wantOps(t, s.ops, c.ops...)
			if s.err != nil {
				return // the connection has ended, and so has what was left
			}
			if len(s.script) > 0 {
				t.Errorf("%d answers not awaited", len(s.script))
			}
			s.wantIdle()
		})
	}
}

// errAny is any error.
var errAny = errors.New("any")

func fetch(n *int, size int) func(a *mem.Arena) *transport.Call {
	return func(a *mem.Arena) *transport.Call { return read(mem.Vec{a.Seg(0, size)}, n) }
}

func store(size int) func(a *mem.Arena) *transport.Call {
	return func(a *mem.Arena) *transport.Call { return write(mem.Vec{a.Seg(0, size)}) }
}

// words32 has n words of arguments.
func words32(n int) *transport.Call {
	c := ping()
	c.Args = func(w *xdr.Writer) {
		for i := range n {
			w.Uint32(uint32(i))
		}
	}
	return c
}

// TestGivenUp gives up calls of each kind: no key of theirs can be used any more, slot and credit wait for the reply, and
// are free when it has come.
func TestGivenUp(t *testing.T) {
	for _, how := range []string{"inline", "read", "write", "list"} {
		t.Run(how, func(t *testing.T) {
			n := 0
			s := newScript(t, 2, nil)
			s.r.Connected(512, nil)
			call := map[string]*transport.Call{
				"inline": ping(), "read": read(mem.Vec{s.arena.Seg(0, 5000)}, &n), "write": write(mem.Vec{s.arena.Seg(0, 8000)}), "list": list(8000),
			}[how]
			ctx, cancel := context.WithCancel(t.Context())
			s.script = []answer{func(*scriptConn, *wire.Msg) []byte {
				cancel()
				return nil
			}}
			wantFate(t, s.r.Exchange(ctx, 7, call), transport.Unknown, context.Canceled)
			if u := s.r.Usage(); u.Outstanding != 1 || u.Keys != 0 || len(s.bound) != 0 || s.lent != 0 {
				t.Errorf("in use: %+v, keys %v, %d long buffers", u, s.bound, s.lent)
			}
			if u := s.r.Credits().Usage(); u.Used != 1 || u.Abandoned != 1 {
				t.Errorf("credits %+v", u)
			}
			wantFate(t, s.r.Exchange(t.Context(), 8, ping()), transport.NotSent, nil) // the only credit
			s.free = s.deliver(s.free, append(words(7, 1, 8, 0, 0, 0, 0), accepted(7, 5)...))
			s.wantIdle()
		})
	}
}

// TestBusyXID makes a call under the XID of one that was given up.
func TestBusyXID(t *testing.T) {
	s := newScript(t, 4, nil)
	s.r.Connected(512, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.script = []answer{reply(nil, 0, 5), func(*scriptConn, *wire.Msg) []byte {
		cancel()
		return nil
	}}
	if err := s.r.Exchange(t.Context(), 6, ping()); err != nil {
		t.Fatal(err)
	}
	wantFate(t, s.r.Exchange(ctx, 7, ping()), transport.Unknown, context.Canceled)
	wantFate(t, s.r.Exchange(t.Context(), 7, ping()), transport.NotSent, ErrBusyXID)
}

// TestPostedInPart has the connection take some of a call's work requests: windows that were bound are freed, and the call
// has not been sent.
func TestPostedInPart(t *testing.T) {
	refused := errors.New("refused")
	for taken := range 3 {
		n := 0
		s := newScript(t, 2, nil)
		s.r.Connected(512, nil)
		s.posts = func(wrs []verbs.SendWR) (int, error) {
			s.posts = nil
			return taken, refused
		}
		wantFate(t, s.r.Exchange(t.Context(), 7, read(mem.Vec{s.arena.Seg(0, 5001)}, &n)), transport.NotSent, refused)
		want := []verbs.Op{bind, bind}[:taken]
		for range taken {
			want = append(want, invalidate)
		}
		wantOps(t, s.ops, want...)
		s.wantIdle()
		s.script = []answer{reply(nil, 0, 5)}
		if err := s.r.Exchange(t.Context(), 8, ping()); err != nil {
			t.Error(err)
		}
	}
}

// TestRegionKeysGivenUp gives up a call whose memory nothing but the connection's end takes back.
func TestRegionKeysGivenUp(t *testing.T) {
	n := 0
	s := newScript(t, 2, nil)
	s.r.Connected(512, &scriptWindow{c: s})
	ctx, cancel := context.WithCancel(t.Context())
	s.script = []answer{func(*scriptConn, *wire.Msg) []byte {
		cancel()
		return nil
	}}
	wantFate(t, s.r.Exchange(ctx, 7, read(mem.Vec{s.arena.Seg(0, 5000)}, &n)), transport.Unknown, context.Canceled)
	wantOps(t, s.ops, send)
	if !errors.Is(s.err, errExposed) {
		t.Errorf("the connection ended with %v", s.err)
	}
}

// TestUseless has messages come that answer no call: so many in a row are one too many.
func TestUseless(t *testing.T) {
	s := newScript(t, 2, nil)
	for i := range MaxUseless + 1 {
		if s.useless != nil {
			t.Fatalf("%v after %d messages", s.useless, i)
		}
		s.free = s.deliver(s.free, append(words(99, 1, 8, 0, 0, 0, 0), accepted(99, 5)...))
	}
	if s.useless != ErrUseless {
		t.Errorf("got %v", s.useless)
	}
}
