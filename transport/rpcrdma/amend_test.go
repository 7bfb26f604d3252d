package rpcrdma

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// refuseUntil answers calls of version 2: pings at once; others with what refuse
// says, until that is nil, and then as finish does.
func refuseUntil(calls chan<- Header, refuse func(q *peerCall) []byte, finish func(p *peer, q *peerCall) error) func(p *peer) error {
	return func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			switch {
			case q.Proc == wire.ProcConnProp:
				continue
			case q.Proc == wire.ProcMsg && len(q.body) >= 24 && beUint32(q.body[20:]) == 1:
				err = p.send(q.inline(5)) // a ping
			default:
				calls <- q.Header
				if b := refuse(q); b != nil {
					err = p.send(b)
				} else {
					err = finish(p, q)
				}
			}
			if err != nil {
				return err
			}
		}
	}
}

// fetch reads the whole call, wherever it is.
func (p *peer) fetch(q *peerCall) ([]byte, error) {
	if q.Proc == wire.ProcNoMsg {
		return p.readAll(q.Lists.Read)
	}
	if len(q.Lists.Read) == 0 {
		return q.body, nil
	}
	data, err := p.readAll(q.Lists.Read)
	at := q.Lists.Read[0].Position
	data = append(data, make([]byte, xdr.Pad(len(data)))...)
	return bytes.Join([][]byte{q.body[:at], data, q.body[at:]}, nil), err
}

// replyLong answers in the reply chunk.
func (p *peer) replyLong(q *peerCall, b []byte) error {
	back, err := p.write(q.Lists.Reply, b)
	if err != nil {
		return err
	}
	return p.send(q.header(wire.ProcNoMsg, 16, wire.Lists{Reply: back}))
}

// segmented is a payload of n pieces that are not adjacent.
func segmented(a *mem.Arena, n, size int) (v mem.Vec) {
	for i := range n {
		v = append(v, a.Seg(i*2*size, size))
	}
	return v
}

func faultOnce(code wire.ErrCode, f wire.Fault) func(q *peerCall) []byte {
	done := false
	return func(q *peerCall) []byte {
		if done {
			return nil
		}
		done = true
		return q.fault(code, f)
	}
}

// TestResendsCall has calls refused for their read chunks: they come again, under
// their XID, as a Position-Zero chunk (the draft, section 7.2.4).
func TestResendsCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse wire.ErrCode
		fault  wire.Fault
		segs   int
		keeps  bool // the next call is like the second already
	}{
		{"no read chunks", wire.ErrReadChunks, wire.Fault{}, 3, true},
		{"fewer read chunks", wire.ErrReadChunks, wire.Fault{Max: 1}, 3, false},
		{"fewer segments", wire.ErrSegments, wire.Fault{Max: 1}, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls, bodies := make(chan Header, 8), make(chan []byte, 8)
			r := dialPeer(t, startPeer(t, nil, refuseUntil(calls, faultOnce(c.refuse, c.fault),
				func(p *peer, q *peerCall) error {
					b, err := p.fetch(q)
					if err != nil {
						return err
					}
					bodies <- b
					return p.send(q.inline(1))
				})), try2)
			if err := r.do(within(t, patience), pingCall(nil)); err != nil {
				t.Fatal(err)
			}
			v := segmented(r.arena, c.segs, 4096)
			data := testPattern(c.segs * 4096)
			v.CopyIn(0, data)
			if err := r.do(within(t, patience), writeCall(v)); err != nil {
				t.Fatal(err)
			}
			first, second := <-calls, <-calls
			if first.XID != second.XID || first.Proc != wire.ProcMsg || len(first.Lists.Read) != c.segs || second.Proc != wire.ProcNoMsg || second.Lists.Read[0].Position != 0 {
				t.Errorf("calls %+v and %+v", first, second)
			}
			if c.refuse == wire.ErrSegments && len(second.Lists.Read) != 1 {
				t.Errorf("%d segments the second time", len(second.Lists.Read))
			}
			if b := <-bodies; !bytes.Contains(b, append(append(xdrWords(0xaaaa, uint32(len(data))), data...), xdrWords(0xbbbb)...)) {
				t.Errorf("call of %d bytes lacks its payload", len(b))
			}
			if err := r.do(within(t, patience), writeCall(v)); err != nil {
				t.Fatal(err)
			}
			if third := <-calls; (third.Proc == wire.ProcNoMsg) != c.keeps {
				t.Errorf("next call %+v", third)
			}
			if n := r.d.Stats().Resends; n != 1 {
				t.Errorf("%d resends", n)
			}
		})
	}
}

// TestResendsForReply has calls refused for what they provide for the reply: they
// come again, under their XID, with a reply chunk that is large enough.
func TestResendsForReply(t *testing.T) {
	reading := func(r *rig) (*transport.Call, func() error) {
		v, n := segmented(r.arena, 3, 4096), 0
		return readCall(v, &n), func() error {
			b := make([]byte, 3*4096)
			v.CopyOut(0, b)
			if n != len(b) || !bytes.Equal(b, testPattern(len(b))) {
				return fmt.Errorf("%d bytes, or wrong ones", n)
			}
			return nil
		}
	}
	listing := func(r *rig) (*transport.Call, func() error) {
		c, sum := pingCall(nil), 0
		c.Proc, c.ReplyMax = 9, 40
		c.Result = func(r *xdr.Reader) error {
			for r.Remaining() > 0 {
				r.Uint32()
				sum++
			}
			return r.End()
		}
		return c, func() error {
			if sum != 2000 {
				return fmt.Errorf("%d words", sum)
			}
			return nil
		}
	}
	for _, c := range []struct {
		name  string
		call  func(r *rig) (*transport.Call, func() error)
		code  wire.ErrCode
		fault wire.Fault
		want  int // the least that the reply chunk may have
	}{
		{"write chunks", reading, wire.ErrWriteChunks, wire.Fault{Max: 0}, 3*4096 + 28},
		{"segments", reading, wire.ErrSegments, wire.Fault{Max: 2}, 3*4096 + 28},
		{"write resource", reading, wire.ErrWriteResource, wire.Fault{Index: 1, Needed: 20000}, 20028},
		{"reply resource", listing, wire.ErrReplyResource, wire.Fault{Needed: 8024}, 8024},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := make(chan Header, 8)
			r := dialPeer(t, startPeer(t, nil, refuseUntil(calls, faultOnce(c.code, c.fault),
				func(p *peer, q *peerCall) error {
					if beUint32(q.body[20:]) == 6 {
						data := testPattern(3 * 4096)
						return p.replyLong(q, append(rpcAccepted(q.XID, uint32(len(data))), data...))
					}
					return p.replyLong(q, append(rpcAccepted(q.XID), make([]byte, 8000)...))
				})), try2)
			if err := r.do(within(t, patience), pingCall(nil)); err != nil {
				t.Fatal(err)
			}
			call, check := c.call(r)
			if err := errors.Join(r.do(within(t, patience), call), check()); err != nil {
				t.Fatal(err)
			}
			first, second := <-calls, <-calls
			if first.XID != second.XID || first.Lists.Reply != nil || len(second.Lists.Write) != 0 ||
				len(second.Lists.Reply) != 1 || second.Lists.Reply.Len() < c.want {
				t.Errorf("calls %+v and %+v, want a reply chunk of %d", first, second, c.want)
			}
			wantAlive(t, r)
		})
	}
}

// TestResendsFewTimes has each resend refused for a byte that it lacks.
func TestResendsFewTimes(t *testing.T) {
	calls := make(chan Header, 2*requester.MaxResends)
	r := dialPeer(t, startPeer(t, nil, refuseUntil(calls, func(q *peerCall) []byte {
		return q.fault(wire.ErrReplyResource, wire.Fault{Needed: uint32(max(q.Lists.Reply.Len(), 5000) + 1)})
	}, nil)), try2)
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	wantFate(t, r.do(within(t, patience), listCall(20)), transport.Answered, transport.ErrProtocol)
	if n := len(calls); n != 1+requester.MaxResends {
		t.Errorf("sent %d times", n)
	}
	wantAlive(t, r)
}

// TestDoesNotResend has calls refused in ways that end them: because the error is
// permanent, or asks for nothing that could be done. There is no end without
// this: each of these refusals comes for every call.
func TestDoesNotResend(t *testing.T) {
	const huge = 1 << 31
	for _, c := range []struct {
		name string
		code wire.ErrCode
		f    wire.Fault
		want int // how many times the call is sent
	}{
		{"BAD_XDR", wire.ErrBadXDR, wire.Fault{}, 1},
		{"INVAL_PROC", wire.ErrInvalProc, wire.Fault{}, 1},
		{"INVAL_OPTION", wire.ErrInvalOption, wire.Fault{}, 1},
		{"SYSTEM", wire.ErrSystem, wire.Fault{}, 1},
		{"READ_CHUNKS", wire.ErrReadChunks, wire.Fault{Max: 7}, 2},
		{"READ_CHUNKS, beside Position Zero", wire.ErrReadChunks, wire.Fault{Max: 1}, 1},
		{"WRITE_CHUNKS", wire.ErrWriteChunks, wire.Fault{Max: 7}, 2},
		{"SEGMENTS, none", wire.ErrSegments, wire.Fault{}, 1},
		{"SEGMENTS, as many as there are", wire.ErrSegments, wire.Fault{Max: 16}, 2},
		{"WRITE_RESOURCE, unknown", wire.ErrWriteResource, wire.Fault{}, 1},
		{"WRITE_RESOURCE, chunk unknown", wire.ErrWriteResource, wire.Fault{Needed: 9000}, 1},
		{"WRITE_RESOURCE, no such chunk", wire.ErrWriteResource, wire.Fault{Index: 2, Needed: 9000}, 1},
		{"WRITE_RESOURCE, too much", wire.ErrWriteResource, wire.Fault{Index: 1, Needed: huge}, 1},
		{"WRITE_RESOURCE", wire.ErrWriteResource, wire.Fault{Index: 1, Needed: 9000}, 2},
		{"REPLY_RESOURCE, unknown", wire.ErrReplyResource, wire.Fault{}, 1},
		{"REPLY_RESOURCE, too much", wire.ErrReplyResource, wire.Fault{Needed: huge}, 1},
		{"REPLY_RESOURCE", wire.ErrReplyResource, wire.Fault{Needed: 9000}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := make(chan Header, 8)
			r := dialPeer(t, startPeer(t, nil, refuseUntil(calls,
				func(q *peerCall) []byte { return q.fault(c.code, c.f) }, nil)), try2)
			if err := r.do(within(t, patience), pingCall(nil)); err != nil {
				t.Fatal(err)
			}
			// One payload each way, so that all errors have something to be about.
			call := writeCall(mem.Vec{r.arena.Seg(0, 8192)})
			if strings.Contains(c.name, "Position Zero") {
				args := call.Args
				call.Args = func(w *xdr.Writer) {
					args(w)
					longArgs(1200)(w)
				}
			}
			call.Recv, call.ReplyMax = []transport.Payload{{r.arena.Seg(1<<20, 8192)}}, 8
			call.Result = func(r *xdr.Reader) error { r.Payload(0); return r.End() }
			err := r.do(within(t, patience), call)
			wantFate(t, err, transport.Answered, transport.ErrProtocol)
			var re *ReplyError
			if !errors.As(err, &re) || re.Code != c.code || re.Fault != c.f || re.Version != Version2 {
				t.Errorf("error %+v", err)
			}
			if len(calls) != c.want {
				t.Errorf("sent %d times, want %d", len(calls), c.want)
			}
			wantAlive(t, r)
		})
	}
}
