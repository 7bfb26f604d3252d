package rc

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// canary fills the memory of b, and returns a check that only the allowed
// stretches have changed.
func (b *bench) canary(allowed ...mem.Seg) func() {
	all := b.arena.Bytes()
	for i := range all {
		all[i] = 0xc5
	}
	return func() {
		b.t.Helper()
		for _, s := range allowed {
			for i := range s.Bytes() {
				s.Bytes()[i] = 0xc5
			}
		}
		for i, x := range all {
			if x != 0xc5 {
				b.t.Fatalf("byte %d was changed to %#x", i, x)
			}
		}
	}
}

// TestBadRequests sends what breaks a rule: the right NAK comes, the queue pair
// fails, and no byte is written.
func TestBadRequests(t *testing.T) {
	a := newArena(t, 64<<10)
	type send struct {
		h packet.Header
		n int
	}
	reth := func(op packet.Opcode, off int, key uint32, n uint32) packet.Header {
		return packet.Header{Op: op, RETH: packet.RETH{VA: arenaBase + benchWindow + uint64(off), RKey: key, Len: n}}
	}
	const key = 0xffffffff // stands for the bench's
	for _, x := range []struct {
		name  string
		sends []send
		want  uint8
	}{
		{"write before the window", []send{{reth(packet.WriteOnly, -1, key, 10), 10}}, synAccess},
		{"write beyond the window", []send{{reth(packet.WriteOnly, benchSize-9, key, 10), 10}}, synAccess},
		{"write after the window", []send{{reth(packet.WriteOnly, benchSize, key, 1), 1}}, synAccess},
		{"write that wraps", []send{{reth(packet.WriteOnly, -arenaBase-benchWindow-5, key, 10), 10}}, synAccess},
		{"write with another key", []send{{reth(packet.WriteOnly, 0, 0x1234, 10), 10}}, synAccess},
		{"write with key 0", []send{{reth(packet.WriteOnly, 0, 0, 10), 10}}, synAccess},
		{"long write that begins well", []send{{reth(packet.WriteFirst, benchSize-mtu, key, 2*mtu), mtu}}, synAccess},
		{"write of too much", []send{{reth(packet.WriteFirst, 0, key, 1<<31), mtu}}, synInvalid},
		{"write of less than it says", []send{{reth(packet.WriteOnly, 0, key, 11), 10}}, synInvalid},
		{"write of more than it says", []send{{reth(packet.WriteOnly, 0, key, 9), 10}}, synInvalid},
		{"first write of all", []send{{reth(packet.WriteFirst, 0, key, mtu), mtu}}, synInvalid},
		{"write that is too long for a packet", []send{{reth(packet.WriteOnly, 0, key, mtu+1), mtu + 1}}, synInvalid},
		{"write with a short first", []send{{reth(packet.WriteFirst, 0, key, 2*mtu), mtu - 1}}, synInvalid},
		{"read before the window", []send{{reth(packet.ReadRequest, -1, key, 10), 0}}, synAccess},
		{"read beyond the window", []send{{reth(packet.ReadRequest, benchSize-9, key, 10), 0}}, synAccess},
		{"read with another key", []send{{reth(packet.ReadRequest, 0, 0x1234, 10), 0}}, synAccess},
		{"read of too much", []send{{reth(packet.ReadRequest, 0, key, 1<<30+1), 0}}, synInvalid},
		{"read with a payload", []send{{reth(packet.ReadRequest, 0, key, 10), 4}}, synInvalid},
		{"reads beyond the depth", []send{{reth(packet.ReadRequest, 0, key, 10), 0}, {reth(packet.ReadRequest, 0, key, 10), 0},
			{reth(packet.ReadRequest, 0, key, 10), 0}}, synInvalid},
		{"send with a short first", []send{{packet.Header{Op: packet.SendFirst}, mtu - 1}}, synInvalid},
		{"send with a long packet", []send{{packet.Header{Op: packet.SendOnly}, mtu + 1}}, synInvalid},
		{"invalidation of a strange key", []send{{packet.Header{Op: packet.SendOnlyInv, IETH: 0x1234}, 0}}, synAccess},
		{"invalidation of key 0", []send{{packet.Header{Op: packet.SendOnlyInv}, 0}}, synAccess},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBench(t, a, Established)
			check := b.canary()
			for _, s := range x.sends {
				if s.h.RETH.RKey == key {
					s.h.RETH.RKey = b.key
				}
				b.feed(s.h, 0, s.n)
			}
			out := b.out()
			if len(out) == 0 || out[len(out)-1].Op != packet.Acknowledge || out[len(out)-1].AETH.Syndrome != x.want {
				t.Errorf("answered %+v, want a NAK %#x", out, x.want)
			}
			if b.q.State() != Failed || b.q.Err() == nil {
				t.Errorf("state %d, error %v", b.q.State(), b.q.Err())
			}
			check()
		})
	}
}

// TestLongSend: a message that outgrows its receive writes nothing beyond it.
func TestLongSend(t *testing.T) {
	b := newBench(t, newArena(t, 64<<10), Established)
	check := b.canary(b.arena.Seg(0, benchRecv))
	b.feed(packet.Header{Op: packet.SendFirst}, 0, mtu)
	for range benchRecv / mtu {
		b.feed(packet.Header{Op: packet.SendMiddle}, 0, mtu)
	}
	if out := b.out(); len(out) != 1 || out[0].AETH.Syndrome != synInvalid || b.q.State() != Failed {
		t.Errorf("answered %+v, state %d", out, b.q.State())
	}
	check()
}

// TestRevokedUnderWay: the rest of a WRITE into a window that was revoked is
// refused, and so is the rest of a READ's answer.
func TestRevokedUnderWay(t *testing.T) {
	a := newArena(t, 64<<10)
	for _, revoke := range []func(*bench){
		func(b *bench) { b.post(verbs.SendWR{Op: verbs.OpLocalInvalidate, RKey: b.key}) },
		func(b *bench) { b.q.memory.keys[b.key].Free() },
		func(b *bench) { b.feed(packet.Header{Op: packet.SendOnlyInv, IETH: b.key}, 0, 0) },
	} {
		b := newBench(t, a, Established)
		b.into(inWrite, packet.WriteMiddle)
		revoke(b)
		check := b.canary()
		b.feed(packet.Header{Op: packet.WriteMiddle}, 0, mtu)
		if b.q.State() != Failed {
			t.Error("a WRITE went on in a window that was revoked")
		}
		check()

		b = newBench(t, a, Established)
		b.feed(packet.Header{Op: packet.ReadRequest, RETH: packet.RETH{VA: b.va, RKey: b.key, Len: 2 * mtu}}, 0, 0)
		var p Packet
		if !b.q.Next(0, &p) || p.Header.Op != packet.ReadResponseFirst {
			t.Fatalf("answered %+v", p.Header)
		}
		revoke(b)
		out := b.out()
		if len(out) != 1 || out[0].AETH.Syndrome != synAccess || b.q.State() != Failed {
			t.Errorf("revoked READ is answered with %+v, state %d", out, b.q.State())
		}
	}
}

// FuzzPeer has a peer do anything, with requests of this side under way. Each
// command is 8 bytes.
func FuzzPeer(f *testing.F) {
	for op := range 32 {
		f.Add([]byte{0, byte(op), 0, 0, 0, 0, 0, 16})
		f.Add([]byte{3, 3, 0, 0, 0, 0, 1, 0, 1, byte(op), 0, 0, 31, 0, 0, 16})
	}
	f.Add([]byte{0, 6, 0, 0, 2, 0, 1, 0, 0, 7, 0, 0, 0, 0, 1, 0})
	f.Add([]byte{0, 12, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 12, 255, 0, 4, 0, 0, 0})
	f.Add([]byte{3, 3, 0, 0, 4, 0, 0, 0, 3, 1, 0, 0, 0, 9, 0, 0, 1, 17, 4, 0, 31, 0, 0, 0, 1, 16, 0, 0, 31, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 9})
	a := newArena(f, 64<<10)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := newBench(t, a, Established)
		r := &b.q.req
		readInto := b.arena.Seg(16<<10, 8<<10)
		check := b.canary(b.arena.Seg(0, benchRecv), b.arena.Seg(benchWindow, benchSize), readInto)
		now := time.Duration(0)
		var p Packet
		for ; len(in) >= 8; in = in[8:] {
			skip, x, n := int(int8(in[2])), binary.BigEndian.Uint16(in[4:]), int(binary.BigEndian.Uint16(in[6:]))%(mtu+2)
			h := packet.Header{Op: packet.Opcode(in[1]), AckReq: in[3]&1 != 0}
			switch in[0] % 6 {
			case 0: // a request
				h.PSN = b.q.resp.expect.Add(skip)
				h.RETH = packet.RETH{VA: b.va + uint64(int64(int8(in[3]))), RKey: b.key, Len: uint32(x)}
				h.IETH = b.key
				if in[3]&0x40 != 0 {
					h.IETH, h.RETH.RKey = uint32(x), uint32(x)
				}
				b.q.Receive(now, &h, bytes.Repeat([]byte{1}, n))
			case 1: // a response
				h.PSN = r.psn(r.una).Add(skip)
				h.AETH.Syndrome = in[4]
				b.q.Receive(now, &h, bytes.Repeat([]byte{2}, n))
			case 2:
				now += time.Duration(x) * time.Millisecond
				b.q.Advance(now)
			case 3: // a request of this side
				wr := verbs.SendWR{Op: verbs.Op(in[1]%8 + 1), Signaled: in[3]&1 != 0, RKey: b.key,
					Local: mem.Vec{readInto.Slice(0, int(x)%readInto.Len)}}
				_ = b.q.PostSend(&wr, nil) // it may be wrong, or too much
			case 4: // one packet goes out, or all
				for b.q.Next(now, &p) && x != 0 {
				}
			case 5:
				b.reap()
				_ = b.q.PostRecv(&verbs.RecvWR{Buf: b.arena.Seg(0, benchRecv)}) // the queue may be full
			}
			if r.una > r.cur || r.cur > r.top || r.top > r.end {
				t.Fatalf("una %d, cur %d, top %d, end %d", r.una, r.cur, r.top, r.end)
			}
			if len(b.q.resp.answers) > maxAnswers(2) || b.q.busy > 8 || b.q.signaled > 8 || b.q.done.len() > b.q.busy+b.q.signaled {
				t.Fatalf("%d answers, %d completions, %d and %d not reaped", len(b.q.resp.answers), b.q.done.len(), b.q.busy, b.q.signaled)
			}
		}
		check()
	})
}
