package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// dice makes choices out of a fuzzer's bytes; when they are used up, all are 0.
type dice []byte

func (d *dice) byte() byte {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return b
}

func (d *dice) uint32() uint32 {
	b := [4]byte{d.byte(), d.byte(), d.byte(), d.byte()}
	return binary.BigEndian.Uint32(b[:])
}

func (d *dice) take(n int) []byte {
	n = min(n, len(*d))
	b := (*d)[:n]
	*d = (*d)[n:]
	return b
}

// props is a set of properties, most of them sensible.
func (d *dice) props() (s wire.PropSet) {
	for range d.byte() % 4 {
		switch d.byte() % 5 {
		case 0:
			s.AddUint32(wire.PropReceiveSize, uint32(d.byte())<<10)
		case 1:
			s.AddUint32(wire.PropBackward, uint32(d.byte()%4))
		case 2:
			s.AddUint32(wire.PropReceiveSize, d.uint32())
		case 3:
			s.Add(wire.PropID(d.byte()), nil)
		case 4:
			s.Add(wire.PropID(d.uint32()), d.take(int(d.byte()%9)))
		}
	}
	return s
}

func (d *dice) subset() (s wire.PropSubset) {
	for range d.byte() % 3 {
		s.Set(int(d.byte() % 40))
	}
	return s
}

// message is one message of a peer that answers call xid or says something of
// its own, in version 2 unless chance has it otherwise.
func (d *dice) message(xid uint32) []byte {
	h := Header{XID: xid, Version: Version2, Credits: uint32(d.byte())}
	switch d.byte() % 8 {
	case 0, 1:
		h.Proc, h.Direction = wire.ProcMsg, wire.Direction(d.byte()%2)
		return append(encodeHeader(&h), rpcAccepted(xid, 5)...)
	case 2:
		h.Proc, h.Err, h.Fault = wire.ProcError, wire.ErrCode(d.byte()%12), wire.Fault{Max: uint32(d.byte() % 20), Index: uint32(d.byte() % 3), Needed: d.uint32() >> 8}
		h.Low, h.High = uint32(d.byte()%4), uint32(d.byte()%4)
		if d.byte()%4 == 0 {
			h.Version = Version1
		}
	case 3:
		h.Proc, h.Direction, h.OptType, h.OptInfo = wire.ProcOptional, wire.Direction(d.byte()%2), d.uint32(), d.take(int(d.byte()))
	case 4:
		h.Version, h.Proc = Version1, wire.ProcMsg
		return append(encodeHeader(&h), rpcAccepted(xid, 5)...)
	case 5:
		return d.take(int(d.byte()))
	default:
		h.Proc, h.Props = wire.ProcConnProp+wire.Proc(d.byte()%4), d.props()
		h.NoChange, h.Done, h.Rejected = d.subset(), d.subset(), d.subset()
		if h.Proc == wire.ProcResProp && d.byte()%2 == 0 {
			h.XID = uint32(d.byte())
		}
	}
	return encodeHeader(&h)
}

// checkProps checks what must hold of an end's properties at all times.
func checkProps(t *testing.T, p *props) {
	t.Helper()
	for id, n := range p.posted {
		if n > 0 && n < p.promised {
			t.Fatalf("receive %d of %d bytes is posted, and the peer may send %d", id, n, p.promised)
		}
	}
	if p.promised < wire.DefaultInline2 || p.promised > p.receiveMax || p.size > p.receiveMax || p.state >= propsStates || len(p.out) > maxPropsOut+1 {
		t.Fatalf("%+v", p)
	}
	if n := p.sendLimit(); n > p.sendMax || n < min(p.sendMax, wire.DefaultInline2) {
		t.Fatalf("send limit %d", n)
	}
}

// sendDue takes the messages that are due, which a peer must be able to read.
func sendDue(t *testing.T, p *props) {
	t.Helper()
	for {
		h, ok := nextOf(p)
		if !ok {
			return
		}
		b := encodeHeader(&h)
		var back Header
		if _, err := ParseHeader(b, &back); err != nil || len(b) > maxCtl || back.Proc != h.Proc {
			t.Fatalf("message %x: %v", b, err)
		}
		p.sent(h.message())
	}
}

// FuzzRequester2 has a link that tries version 2 make calls of each kind while
// messages come that a fuzzer makes up: no call is sent without end, no receive
// is lost, and the version and the properties stay what they can be.
func FuzzRequester2(f *testing.F) {
	for seed := range byte(24) {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(i)*seed + byte(i>>3)*(seed|1)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		d := dice(script)
		l, conn, a := paperLink(t, try2)
		receives, n, sends := len(conn.recvs), 0, 0
		settled := false
		var xid uint32
		conn.sent = func(b []byte) {
			if sends++; sends > 13 {
				t.Fatal("sent again without end")
			}
			if most := l.Terms().SendInline; len(b) > most {
				t.Fatalf("%d bytes where %d may be", len(b), most)
			}
			var m wire.Msg
			if _, err := m.Parse(b); err != nil {
				t.Fatal(err)
			}
			if inv := m.InvHandle; inv != 0 && !slices.Contains(m.Lists.Keys(nil), inv) {
				t.Fatalf("call without the key %#x", inv)
			}
		}
		conn.next = func() []byte {
			if len(d) == 0 {
				return nil
			}
			settled = l.settled()
			return d.message(xid)
		}
		conn.reposted = func() {
			if len(conn.recvs) != receives {
				t.Fatalf("%d receives posted of %d", len(conn.recvs), receives)
			}
			if settled && !l.settled() {
				t.Fatal("unsettled")
			}
			checkProps(t, l.control.props)
			if d.byte()%2 == 0 {
				sendDue(t, l.control.props)
			}
		}
		for xid = 7; len(d) > 0 && l.Err() == nil && xid < 40; xid++ {
			c := paperCalls(a, &n)[d.byte()%3]
			sends = 0
			err := l.Exchange(context.Background(), xid, c)
			var te *transport.Error
			if err != nil && (!errors.As(err, &te) || te.Fate != transport.Answered && l.Err() == nil) {
				t.Fatalf("error %v", err)
			}
		}
		if l.long.Stats().Leases != 0 {
			t.Errorf("%d long buffers leased", l.long.Stats().Leases)
		}
	})
}

// FuzzResponder2 gives a responder a sequence of messages, on one connection:
// each is answered once or not at all, receives are never smaller than the
// client counts on, and replies never longer than it takes.
func FuzzResponder2(f *testing.F) {
	for seed := range byte(24) {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(i)*seed + byte(i>>3)*(seed|1)
		}
		f.Add(b)
	}
	s, err := NewServer(sinkDevice{}, fuzzProgram{}, ServerConfig{InlineIn: 16384, InlineOut: 16384, Credits: 4, Memory: 16 << 20, ConnMemory: 4 << 20})
	if err != nil {
		f.Fatal(err)
	}
	c := newServerConn(s, sinkRequest{})
	if err := c.makeBuffers(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		d := dice(script)
		c.props = newProps(c.receives(), s.cfg.receiveSize(), s.cfg.InlineOut, wire.BackwardNone)
		c.props.resized.Store(true) // sizes are noted from the beginning
		c.posted, c.cause = c.receives(), nil
		for i := range c.posted {
			c.props.post(i)
		}
		for xid := uint32(1); len(d) > 0 && c.cause == nil; xid++ {
			msg := d.message(xid)
			if d.byte()%3 == 0 {
				h := msgHeader2(xid, wire.Lists{Reply: chunkOf(uint32(d.byte()) << 9)})
				msg = append(encodeHeader(&h), rpcCall(xid, 1, 0, uint32(d.byte())<<5, uint32(d.byte()%3), uint32(d.byte())<<6)...)
			}
			id := int(d.byte()) % c.receives()
			msg = msg[:min(len(msg), c.props.posted[id])]
			var h Header
			_, headErr := ParseHeader(msg, &h)
			conn := &sinkConn{t: t, c: c, ctx: t.Context()}
			conn.call.Reply = append(wire.Chunk(nil), h.Lists.Reply...)
			for _, w := range h.Lists.Write {
				conn.call.Write = append(conn.call.Write, append(wire.Chunk{}, w...))
			}
			conn.call.Read = append(conn.call.Read, h.Lists.Read...)
			c.conn = conn
			copy(c.recvBuf(id).Bytes(), msg)
			c.reads = make(chan struct{}, s.cfg.ReadDepth)
			c.readable.Store(true)
			k := <-c.free
			c.learn(verbs.Completion{ID: uint64(id), Op: verbs.OpRecv, Len: len(msg)})
			limit := c.props.sendLimit()
			k.run(t.Context(), arrival{id, len(msg)})
			if k.abandoned {
				k.Release()
				k.abandoned = false
				c.free <- k
			} else if c.props.posted[id] == 0 {
				t.Fatal("receive not posted again")
			}
			checkProps(t, c.props)
			if len(c.free) != cap(c.free) || len(c.sends) != 0 || c.busy.Load() != 0 || s.pool.Stats().Used != 0 {
				t.Fatalf("%d calls free, %d sends out", len(c.free), len(c.sends))
			}
			if conn.sent != nil && h.Version == Version2 && headErr == nil {
				if len(conn.sent) > limit {
					t.Fatalf("%d bytes to a client that takes %d", len(conn.sent), limit)
				}
				checkReply(t, conn, msg, headErr)
			}
		}
	})
}
