package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// introduce tells the server what the raw client receives, and how much of the
// backward direction. The server's answers, if any, are taken.
func (c *rawClient) introduce(size, backward uint32) {
	c.t.Helper()
	c.call(Header{XID: 9, Version: Version2, Credits: 16, Proc: wire.ProcConnProp, V2: introduction(size, backward, 0)}, nil)
	c.ping2(10)
}

// startBack2 starts a server that can call back, and a raw client of version 2.
func startBack2(t *testing.T) (*rawClient, transport.Backchannel) {
	t.Helper()
	s, seen := startBack(t, ServerConfig{Backward: 2})
	c, props := dialRaw2(t, s)
	wantProps(t, &props, wire.ProcConnProp, "1=4096", "2=2")
	return c, <-seen
}

// TestBackwardSupport has a server call what the client says it takes: the
// draft, section 6.2.2.
func TestBackwardSupport(t *testing.T) {
	c, back := startBack2(t)
	long := nullCall()
	long.Args = longArgs(2000)
	// Inline, by default.
	wantFate(t, back.Call(within(t, patience), long), transport.NotSent, requester.ErrTooLong)
	answered := make(chan error, 1)
	runCall := func() { answered <- back.Call(within(t, patience), nullCall()) }
	go runCall()
	q, body := c.reply()
	if q.Proc != wire.ProcMsg || q.Direction != wire.DirCall || q.InvHandle != 0 || q.Version != Version2 {
		t.Errorf("call %+v", q)
	}
	c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcMsg, V2: V2{Direction: wire.DirReply}}, rpcAccepted(beUint32(body)))
	if err := <-answered; err != nil {
		t.Error(err)
	}
	c.introduce(4096, uint32(wire.BackwardNone))
	wantFate(t, back.Call(within(t, patience), nullCall()), transport.NotSent, errNoBackward)
	c.introduce(4096, uint32(wire.BackwardGeneral))
	tooLong := nullCall()
	tooLong.Args = longArgs(20000)
	wantFate(t, back.Call(within(t, patience), tooLong), transport.NotSent, requester.ErrTooLong)
	c.ping2(11)
}

// TestServerBackwardLong has a server make long calls, and a client answer them
// in every way, right and wrong.
func TestServerBackwardLong(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(c *rawClient, q *Header)
		err    error // nil: success
	}{
		{"inline", func(c *rawClient, q *Header) {
			l := wire.Lists{Reply: append(wire.Chunk{}, q.Lists.Reply...)}
			l.Reply.Fill(0)
			c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Lists: l, V2: V2{Direction: wire.DirReply}}, rpcAccepted(q.XID, 7))
		}, nil},
		{"in the reply chunk, key invalidated", func(c *rawClient, q *Header) {
			l := wire.Lists{Reply: append(wire.Chunk{}, q.Lists.Reply...)}
			l.Reply.Fill(28)
			c.write(q.Lists.Reply[0], rpcAccepted(q.XID, 7))
			h := Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcNoMsg, Lists: l, V2: V2{Direction: wire.DirReply}}
			b := encodeHeader(&h)
			copy(c.out.Bytes(), b)
			c.post(verbs.SendWR{Op: verbs.OpSendInvalidate, RKey: q.InvHandle, Local: transport.Payload{c.out.Slice(0, len(b))}})
		}, nil},
		{"more than the chunk holds", func(c *rawClient, q *Header) {
			l := wire.Lists{Reply: append(wire.Chunk{}, q.Lists.Reply...)}
			l.Reply[0].Length++
			c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcNoMsg, Lists: l, V2: V2{Direction: wire.DirReply}}, nil)
		}, transport.ErrProtocol},
		{"nothing in the chunk", func(c *rawClient, q *Header) {
			l := wire.Lists{Reply: append(wire.Chunk{}, q.Lists.Reply...)}
			l.Reply.Fill(0)
			c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcNoMsg, Lists: l, V2: V2{Direction: wire.DirReply}}, nil)
		}, transport.ErrProtocol},
		{"another's reply in the chunk", func(c *rawClient, q *Header) {
			l := wire.Lists{Reply: append(wire.Chunk{}, q.Lists.Reply...)}
			l.Reply.Fill(28)
			c.write(q.Lists.Reply[0], rpcAccepted(q.XID+1, 7))
			c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcNoMsg, Lists: l, V2: V2{Direction: wire.DirReply}}, nil)
		}, transport.ErrProtocol},
		{"error", func(c *rawClient, q *Header) {
			c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcError, Err: wire.ErrSystem}, nil)
		}, transport.ErrProtocol},
		{"read list", func(c *rawClient, q *Header) {
			c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcNoMsg, Lists: wire.Lists{Read: q.Lists.Read}, V2: V2{Direction: wire.DirReply}}, nil)
		}, transport.ErrProtocol},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, back := startBack2(t)
			c.introduce(4096, uint32(wire.BackwardGeneral))
			call := pingCall(nil)
			call.Args, call.ReplyMax = longArgs(2000), 8000
			answered := make(chan error, 1)
			runCall := func() { answered <- back.Call(within(t, patience), call) }
			for range 3 { // more often than there are slots
				go runCall()
				q, _ := c.reply()
				if q.Proc != wire.ProcNoMsg || q.Direction != wire.DirCall || len(q.Lists.Read) != 1 || q.Lists.Read[0].Position != 0 ||
					q.Lists.Reply.Len() < 8000 || !slices.Contains(q.Lists.Keys(nil), q.InvHandle) {
					t.Fatalf("call %+v", q)
				}
				if b := c.read(q.Lists.Read[0].Segment); beUint32(b) != q.XID || beUint32(b[len(b)-4:]) != 1999 {
					t.Errorf("call of %d bytes", len(b))
				}
				tc.answer(c, &q)
				err := <-answered
				if tc.err != nil {
					wantFate(t, err, transport.Answered, tc.err)
				} else if err != nil {
					t.Error(err)
				}
				c.ping2(50)
			}
		})
	}
}

// TestServerBackwardLongGivenUp: the memory of a long call that is given up is
// out of the client's reach at once.
func TestServerBackwardLongGivenUp(t *testing.T) {
	c, back := startBack2(t)
	c.introduce(4096, uint32(wire.BackwardGeneral))
	call := nullCall()
	call.Args = longArgs(2000)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	runCall := func() { answered <- back.Call(ctx, call) }
	go runCall()
	q, _ := c.reply()
	cancel()
	wantFate(t, <-answered, transport.Unknown, context.Canceled)
	c.post(verbs.SendWR{Op: verbs.OpRead, Signaled: true, RKey: q.Lists.Read[0].Handle, Addr: q.Lists.Read[0].Offset,
		Local: transport.Payload{c.data.Slice(0, 100)}})
	c.wantLost()
}

// TestServerOpensNothingWithoutWindows: on a device without windows a key would
// open the memory for the chunks of all clients, for as long as the connection.
func TestServerOpensNothingWithoutWindows(t *testing.T) {
	dev := &listenDevice{regionKeys: true}
	if _, err := NewServer(dev, newTestProgram(), ServerConfig{ReadReplies: true}); err == nil {
		t.Error("replies by read chunks")
	}
	p := backSwitch{seen: make(chan transport.Backchannel, 8)}
	var binds atomic.Int32
	_, conn := scriptServer(t, dev, p, ServerConfig{Backward: 1}, func(wr *verbs.SendWR) {
		if wr.Op == verbs.OpBind {
			binds.Add(1)
		}
	})
	back := conn.introduced(p)
	call := nullCall()
	call.Args = longArgs(2000)
	wantFate(t, back.Call(within(t, patience), call), transport.NotSent, requester.ErrTooLong)
	if binds.Load() > 0 {
		t.Error("memory has been opened")
	}
}

// write places b in a segment of the server's.
func (c *rawClient) write(s wire.Segment, b []byte) {
	c.t.Helper()
	local := c.data.Slice(0, len(b))
	copy(local.Bytes(), b)
	c.post(verbs.SendWR{Op: verbs.OpWrite, Signaled: true, RKey: s.Handle, Addr: s.Offset, Local: transport.Payload{local}})
	c.wait(verbs.OpWrite)
}

// TestClientServesLongBackward has a scripted server make calls with chunks.
func TestClientServesLongBackward(t *testing.T) {
	big := rpcCall(77, procSum, 20000)
	big = append(append(big, testPattern(20000)...), xdrWords(0xbbbb)...)
	for _, tc := range []struct {
		name string
		call func(p *peer) (h Header, body []byte, err error)
		want func(p *peer, h *Header, body []byte) error
	}{
		{"long call", func(p *peer) (Header, []byte, error) {
			seg, err := p.open(0, big, verbs.RemoteRead)
			return Header{Proc: wire.ProcNoMsg, Lists: wire.Lists{Read: []wire.ReadSegment{{Segment: seg}}}, V2: V2{InvHandle: seg.Handle}}, nil, err
		}, wantBack(wire.ProcMsg, sumReply(testPattern(20000))...)},
		{"read chunk", func(p *peer) (Header, []byte, error) {
			b, pos := sumCall(77, 9001)
			seg, err := p.open(0, testPattern(9001), verbs.RemoteRead)
			return Header{Proc: wire.ProcMsg, Lists: wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: seg}}}}, b, err
		}, wantBack(wire.ProcMsg, sumReply(testPattern(9001))...)},
		{"long reply", func(p *peer) (Header, []byte, error) {
			seg, err := p.open(0, make([]byte, 20000), verbs.RemoteWrite)
			return Header{Proc: wire.ProcMsg, Lists: wire.Lists{Reply: wire.Chunk{seg}}}, rpcCall(77, procList, 3000), err
		}, func(p *peer, h *Header, _ []byte) error {
			got := p.data.Slice(0, h.Lists.Reply.Len()).Bytes()
			if h.Proc != wire.ProcNoMsg || len(got) != 24+12000 || beUint32(got[len(got)-4:]) != 2999 || beUint32(got) != 77 {
				return errors.New("no long reply")
			}
			return nil
		}},
		{"reply chunk not needed, write chunk not used", func(p *peer) (Header, []byte, error) {
			seg, err := p.open(0, make([]byte, 20000), verbs.RemoteWrite)
			return Header{Proc: wire.ProcMsg, Lists: wire.Lists{Write: []wire.Chunk{{seg}}, Reply: wire.Chunk{seg}}}, rpcCall(77, procList, 3), err
		}, func(p *peer, h *Header, body []byte) error {
			if h.Lists.Reply.Len() != 0 || h.Lists.Write[0].Len() != 0 {
				return errors.New("chunks used")
			}
			return wantBack(wire.ProcMsg, 0, 1, 2)(p, h, body)
		}},
		{"write chunk alone, not used", func(p *peer) (Header, []byte, error) {
			seg, err := p.open(0, make([]byte, 20000), verbs.RemoteWrite)
			return Header{Proc: wire.ProcMsg, Lists: wire.Lists{Write: []wire.Chunk{{seg}, {}}}}, rpcCall(77, procFill, 400, 1), err
		}, func(p *peer, h *Header, body []byte) error {
			if len(h.Lists.Write) != 2 || h.Lists.Write[0].Len() != 0 || len(body) != 24+4+400+4 {
				return fmt.Errorf("%+v, %d bytes", h, len(body))
			}
			return nil
		}},
		{"reply longer than there ever is", func(p *peer) (Header, []byte, error) {
			return Header{Proc: wire.ProcMsg, Lists: wire.Lists{Reply: chunkOf(1 << 20)}}, rpcCall(77, procList, 17000), nil
		}, wantBackFault(wire.ErrSystem, wire.Fault{})},
		{"reply chunk too small", func(p *peer) (Header, []byte, error) {
			seg, err := p.open(0, make([]byte, 5000), verbs.RemoteWrite)
			return Header{Proc: wire.ProcMsg, Lists: wire.Lists{Reply: wire.Chunk{seg}}, V2: V2{InvHandle: seg.Handle}}, rpcCall(77, procList, 3000), err
		}, wantBackFault(wire.ErrReplyResource, wire.Fault{Needed: 12024})},
		{"reply that is too long", func(p *peer) (Header, []byte, error) {
			return Header{Proc: wire.ProcMsg}, rpcCall(77, procList, 3000), nil
		}, wantBackFault(wire.ErrReplyResource, wire.Fault{Needed: 12024})},
		{"call longer than may be", func(p *peer) (Header, []byte, error) {
			return Header{Proc: wire.ProcNoMsg, Lists: wire.Lists{Read: []wire.ReadSegment{{Segment: wire.Segment{Handle: 1, Length: maxBackLong + 1}}}}}, nil, nil
		}, wantBackFault(wire.ErrBadXDR, wire.Fault{})},
		{"another XID inside", func(p *peer) (Header, []byte, error) {
			return Header{Proc: wire.ProcMsg}, rpcCall(78, procNull), nil
		}, wantBackFault(wire.ErrBadXDR, wire.Fault{})},
		{"a reply that is said to be a call", func(p *peer) (Header, []byte, error) {
			return Header{Proc: wire.ProcMsg}, rpcAccepted(77), nil
		}, wantBackFault(wire.ErrBadXDR, wire.Fault{})},
		{"too many write chunks", func(p *peer) (Header, []byte, error) {
			return Header{Proc: wire.ProcMsg, Lists: wire.Lists{Write: make([]wire.Chunk, wire.MaxWriteChunks+1)}}, rpcCall(77, procNull), nil
		}, wantBackFault(wire.ErrWriteChunks, wire.Fault{Max: wire.MaxWriteChunks})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checked := make(chan error, 1)
			addr := startPeer(t, nil, func(p *peer) error {
				if _, err := p.control(wire.ProcConnProp); err != nil {
					return err
				}
				h, body, err := tc.call(p)
				if err != nil {
					return err
				}
				h.XID, h.Version, h.Credits = 77, Version2, 3
				if err := p.send(append(encodeHeader(&h), body...)); err != nil {
					return err
				}
				for {
					q, err := p.call()
					switch {
					case err != nil:
						return err
					case q.XID == 77:
						err := tc.want(p, &q.Header, q.body)
						if q.invalidated != (h.InvHandle != 0 && q.Proc != wire.ProcError) {
							err = errors.Join(err, fmt.Errorf("a key invalidated: %v", q.invalidated))
						}
						checked <- err
					default:
						if err := p.send(q.inline(5)); err != nil {
							return err
						}
					}
				}
			})
			r := dialPeer(t, addr, func(cfg *DialerConfig) { cfg.TryVersion2, cfg.Callbacks = true, newTestProgram() })
			wantAlive2(t, r)
			if err := <-checked; err != nil {
				t.Error(err)
			}
			wantAlive2(t, r)
			if b := r.d.Stats().Terms.Backward; b != "general" {
				t.Errorf("takes %s", b)
			}
		})
	}
}

// TestRefusesBackwardUnderXIDOfCall has calls and properties that cannot be parsed
// come under the XID of a call that waits for its reply, which is not concerned.
func TestRefusesBackwardUnderXIDOfCall(t *testing.T) {
	for name, bad := range map[string]struct {
		h    Header
		tail []uint32
		code wire.ErrCode
	}{
		"call":       {Header{Proc: wire.ProcMsg, Lists: wire.Lists{Write: make([]wire.Chunk, wire.MaxWriteChunks+1)}}, nil, wire.ErrWriteChunks},
		"properties": {Header{Proc: wire.ProcUpdProp}, []uint32{1, 2, 3, 4}, wire.ErrBadXDR},
	} {
		t.Run(name, func(t *testing.T) {
			r := dialPeer(t, startPeer(t, nil, func(p *peer) error {
				if _, err := p.control(wire.ProcConnProp); err != nil {
					return err
				}
				q, err := p.call()
				if err != nil {
					return err
				}
				h := bad.h
				h.XID, h.Version, h.Credits = q.XID, Version2, 3
				if err := p.send(append(encodeHeader(&h), xdrWords(bad.tail...)...)); err != nil {
					return err
				}
				e, err := p.call()
				if err != nil {
					return err
				}
				// With the grant of the backward direction.
				if e.Proc != wire.ProcError || e.Err != bad.code || e.XID != q.XID || e.Credits != 3 {
					return fmt.Errorf("got %+v, want error %d", e.Header, bad.code)
				}
				if err := p.send(q.inline(5)); err != nil {
					return err
				}
				return answerAll(5)(p)
			}), func(cfg *DialerConfig) {
				cfg.TryVersion2, cfg.Callbacks, cfg.CallbackCredits = true, newTestProgram(), 3
			})
			wantAlive2(t, r)
			wantAlive2(t, r)
			wantAlive2(t, r)
		})
	}
}

func wantAlive2(t *testing.T, r *rig) {
	t.Helper()
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func wantBack(proc wire.Proc, results ...uint32) func(p *peer, h *Header, body []byte) error {
	return func(_ *peer, h *Header, body []byte) error {
		if h.Proc != proc || h.Direction != wire.DirReply || !bytes.Equal(body, rpcAccepted(77, results...)) {
			return errors.New("wrong reply")
		}
		return nil
	}
}

func wantBackFault(code wire.ErrCode, f wire.Fault) func(p *peer, h *Header, body []byte) error {
	return func(_ *peer, h *Header, _ []byte) error {
		if h.Proc != wire.ProcError || h.Err != code || h.Fault != f {
			return errors.New("wrong error")
		}
		return nil
	}
}

// open puts b into the peer's data from off on and opens it to the requester.
func (p *peer) open(off int, b []byte, access verbs.Access) (wire.Segment, error) {
	w, err := p.conn.NewWindow()
	if err != nil {
		return wire.Segment{}, err
	}
	s := p.data.Slice(off, len(b))
	copy(s.Bytes(), b)
	seg := wire.Segment{Handle: w.Next(s), Length: uint32(s.Len), Offset: w.Addr(s)}
	return seg, p.post(verbs.SendWR{Op: verbs.OpBind, Window: w, Access: access, Local: transport.Payload{s}})
}

// TestServerTakesBackwardReplies2 answers backward calls of version 2 in ways that
// are no reply: the calls fail at once, and their slots and credits are free.
func TestServerTakesBackwardReplies2(t *testing.T) {
	for name, reply := range map[string]func(c *rawClient, xid uint32){
		"in version 1": func(c *rawClient, xid uint32) {
			c.call(Header{XID: xid, Version: Version1, Credits: 4, Proc: wire.ProcMsg}, rpcAccepted(xid, 5))
		},
		"another XID inside": func(c *rawClient, xid uint32) {
			c.call(Header{XID: xid, Version: Version2, Credits: 4, Proc: wire.ProcMsg, V2: V2{Direction: wire.DirReply}}, rpcAccepted(xid+1, 5))
		},
		"a call inside": func(c *rawClient, xid uint32) {
			c.call(Header{XID: xid, Version: Version2, Credits: 4, Proc: wire.ProcMsg, V2: V2{Direction: wire.DirReply}}, rpcCall(xid, procNull))
		},
		"nothing inside": func(c *rawClient, xid uint32) {
			c.call(Header{XID: xid, Version: Version2, Credits: 4, Proc: wire.ProcMsg, V2: V2{Direction: wire.DirReply}}, nil)
		},
		"header cut short": func(c *rawClient, xid uint32) {
			c.send(xdrWords(xid, 2, 4, uint32(wire.ProcMsg), uint32(wire.DirReply), 0, 0, 0), nil)
		},
		"unknown error": func(c *rawClient, xid uint32) { c.send(xdrWords(xid, 2, 4, uint32(wire.ProcError), 11), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			c, back := startBack2(t)
			answered := make(chan error, 1)
			runCall := func() { answered <- back.Call(within(t, patience), pingCall(nil)) }
			for range 3 { // more often than there are slots
				go runCall()
				q, _ := c.reply()
				reply(c, q.XID)
				wantFate(t, <-answered, transport.Answered, transport.ErrProtocol)
			}
			go runCall()
			q, body := c.reply()
			// Messages about properties have XIDs of their own.
			c.send(xdrWords(q.XID, 2, 4, uint32(wire.ProcResProp), 9), nil)
			c.ping2(40)
			c.call(Header{XID: q.XID, Version: Version2, Credits: 4, Proc: wire.ProcMsg, V2: V2{Direction: wire.DirReply}}, rpcAccepted(beUint32(body), 5))
			if err := <-answered; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestServerBackwardLongFreesWindows: a client may be invalidating a key of a call
// that is given up, and adapters may not stand one that is invalidated twice.
func TestServerBackwardLongFreesWindows(t *testing.T) {
	var invalidated atomic.Int32
	p := backSwitch{seen: make(chan transport.Backchannel, 8)}
	_, conn := scriptServer(t, new(listenDevice), p, ServerConfig{Backward: 1}, func(wr *verbs.SendWR) {
		if wr.Op == verbs.OpLocalInvalidate {
			invalidated.Add(1)
		}
	})
	back := conn.introduced(p)
	call := nullCall()
	call.Args, call.ReplyMax = longArgs(2000), 8000
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	runCall := func() { answered <- back.Call(ctx, call) }
	go runCall()
	eventually(t, "the call is out", func() bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return len(conn.sent) == 1
	})
	conn.mu.Lock()
	if n := len(conn.bound); n != 2 {
		t.Errorf("%d keys", n)
	}
	conn.mu.Unlock()
	cancel()
	wantFate(t, <-answered, transport.Unknown, context.Canceled)
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if n := invalidated.Load(); n != 0 || len(conn.bound) != 0 || conn.closed {
		t.Errorf("%d keys invalidated, %d left", n, len(conn.bound))
	}
}
