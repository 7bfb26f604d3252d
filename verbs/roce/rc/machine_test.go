package rc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

const mtu = 256

// bench is a queue pair under test whose peer the test plays.
type bench struct {
	*side
	key uint32
	va  uint64
}

// The windows of a bench, and its receive.
const (
	benchWindow = 4096
	benchSize   = 2048
	benchRecv   = 1024
)

func newBench(t testing.TB, a *mem.Arena, s State) *bench {
	b := &bench{side: newSideOn(t, a, 8, 8)}
	b.recv(1, b.arena.Seg(0, benchRecv))
	b.key, b.va = b.bind(b.arena.Seg(benchWindow, benchSize), verbs.RemoteRead|verbs.RemoteWrite)
	if s == Idle {
		return b
	}
	p := plainPeer
	p.QPN, p.ReadsIn = 0x22, 2
	b.q.Connect(0, p)
	if s == Established {
		b.q.Establish()
	}
	if s == Failed {
		b.q.Fail(errors.New("over"))
	}
	return b
}

// out is all that the queue pair has to send now.
func (b *bench) out() (all []packet.Header) {
	var p Packet
	for b.q.Next(0, &p) {
		all = append(all, p.Header)
	}
	return all
}

// feed has the peer send a packet, skip numbers ahead of what is expected.
func (b *bench) feed(h packet.Header, skip, n int) {
	h.PSN = b.q.resp.expect.Add(skip)
	b.q.Receive(0, &h, make([]byte, n))
}

// into brings the responder into a phase where op may be the next.
func (b *bench) into(p phase, op packet.Opcode) {
	switch p {
	case inSend:
		b.feed(packet.Header{Op: packet.SendFirst}, 0, mtu)
	case inWrite:
		left := uint32(2 * mtu)
		if op == packet.WriteLast {
			left = 10
		}
		b.feed(packet.Header{Op: packet.WriteFirst, RETH: packet.RETH{VA: b.va, RKey: b.key, Len: mtu + left}}, 0, mtu)
	}
}

// TestEveryStateAndPacket walks all states, phases, opcodes, and places in the
// sequence, and compares with what a plain reading of the rules says.
func TestEveryStateAndPacket(t *testing.T) {
	legal := map[phase]map[packet.Opcode]bool{
		between: {packet.SendFirst: true, packet.SendOnly: true, packet.SendOnlyInv: true, packet.WriteFirst: true,
			packet.WriteOnly: true, packet.ReadRequest: true},
		inSend:  {packet.SendMiddle: true, packet.SendLast: true, packet.SendLastInv: true},
		inWrite: {packet.WriteMiddle: true, packet.WriteLast: true},
	}
	a := newArena(t, 64<<10)
	for s := Idle; s < states; s++ {
		for ph := between; ph < phases; ph++ {
			if ph != between && s != Receiving && s != Established {
				continue // no packet brings it there
			}
			for op := range 256 {
				for _, skip := range []int{-1, 0, 1} {
					name := fmt.Sprintf("state %d, phase %d, %v, %+d", s, ph, packet.Opcode(op), skip)
					b := newBench(t, a, s)
					b.into(ph, packet.Opcode(op))
					b.out()
					h := packet.Header{Op: packet.Opcode(op), AckReq: true, RETH: packet.RETH{VA: b.va, RKey: b.key}, IETH: b.key}
					n := 0
					switch h.Op {
					case packet.SendFirst, packet.SendMiddle, packet.WriteFirst, packet.WriteMiddle:
						n = mtu
					case packet.SendLast, packet.SendLastInv, packet.WriteLast:
						n = 10
					}
					if h.Op == packet.WriteFirst {
						h.RETH.Len = 2 * mtu
					}
					before, expect := b.q.state, b.q.resp.expect
					b.feed(h, skip, n)
					got := b.out()
					var syndromes []uint8
					for _, g := range got {
						syndromes = append(syndromes, g.AETH.Syndrome)
					}
					want := []uint8(nil)
					after, moved := before, 0
					takes := (before == Receiving || before == Established) && h.Op.IsRequest()
					switch {
					case !takes:
					case skip > 0:
						want = []uint8{synSequence}
					case skip < 0 && h.Op == packet.ReadRequest: // there was none
					case skip < 0:
						want = []uint8{synAckUnlimited}
					case !legal[ph][h.Op]:
						want, after = []uint8{synInvalid}, Failed
					default:
						want, moved = []uint8{synAckUnlimited}, 1
					}
					if takes && after == Receiving {
						after = Established
					}
					if fmt.Sprint(syndromes) != fmt.Sprint(want) || b.q.state != after || b.q.resp.expect != expect.Add(moved) {
						t.Errorf("%s: answered %x, state %d, moved %d; want %x, %d, %d", name, syndromes, b.q.state,
							b.q.resp.expect.Sub(expect), want, after, moved)
					}
					if (b.q.err != nil) != (b.q.state == Failed) {
						t.Errorf("%s: state %d with error %v", name, b.q.state, b.q.err)
					}
				}
			}
		}
	}
}

// TestEveryResponse sends each response to each kind of request under way, at
// each place.
func TestEveryResponse(t *testing.T) {
	a := newArena(t, 64<<10)
	ops := []verbs.Op{0, verbs.OpSend, verbs.OpWrite, verbs.OpRead}
	for _, op := range ops {
		for _, r := range []packet.Opcode{packet.ReadResponseFirst, packet.ReadResponseMiddle, packet.ReadResponseLast,
			packet.ReadResponseOnly, packet.Acknowledge, packet.AtomicAcknowledge} {
			for syndrome := range 256 {
				for _, skip := range []int{-1, 0, 1} {
					name := fmt.Sprintf("op %d, %v, syndrome %#x, %+d", op, r, syndrome, skip)
					b := newBench(t, a, Established)
					if op != 0 {
						b.post(verbs.SendWR{ID: 7, Op: op, Signaled: true, Local: mem.Vec{b.arena.Seg(0, 10)}})
					}
					b.out()
					h := packet.Header{Op: r, PSN: b.q.peer.SendPSN.Add(skip), AETH: packet.AETH{Syndrome: uint8(syndrome)}}
					b.q.Receive(0, &h, make([]byte, 10))
					done, failed := len(b.reap()) == 1, b.q.state == Failed
					wantDone, wantFailed := false, false
					kind := syndrome & synKind
					switch {
					case op == 0 || skip != 0: // answers nothing
					case r.IsReadResponse():
						wantDone, wantFailed = op == verbs.OpRead, op != verbs.OpRead
					case r != packet.Acknowledge:
						wantFailed = true
					case kind == 0:
						wantDone = op != verbs.OpRead
					case kind == synRNR || syndrome == synSequence:
					default:
						wantFailed = true
					}
					if done != wantDone || failed != wantFailed {
						t.Errorf("%s: completed %v, failed %v (%v)", name, done, failed, b.q.err)
					}
				}
			}
		}
	}
}
