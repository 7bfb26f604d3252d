package rc

import (
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// span is a READ request on the wire, by the numbers of its responses.
type span struct{ from, to uint64 }

// requester is the send queue. Packets are numbered without wrapping; base
// is the PSN of number 0.
type requester struct {
	ring ring[entry]
	// next is the place in ring of the request that cur lies in.
	next   uint64
	probes int
	base   packet.PSN
	// See the package's invariants.
	una, cur, top, end uint64
	reads              []span

	// window says how many numbers may be under way, piece how many one READ
	// request may ask for. unasked counts packets sent since one asked for an
	// acknowledgement, asked is the place in ring of that one's request.
	window         window
	piece, unasked int
	asked          uint64
	// recovered is the una at which a loss was last inferred.
	recovered uint64
	// passed: a large packet went that way; blocked, inquire: see passage.go.
	passed  [2]bool
	blocked blocked
	inquire bool

	timing timing
}

func (r *requester) connect(p *Peer) {
	r.base = p.SendPSN
	r.window = newWindow(p.MTU, p.Room)
	r.piece = r.window.piece(p.ReadsOut)
	r.recovered = ^uint64(0)
	r.reads = make([]span, 0, p.ReadsOut)
	r.timing = timing{rto: rtoFirst}
}

func (r *requester) psn(seq uint64) packet.PSN { return r.base.Add(int(seq & (1<<24 - 1))) }

// under is the number of packets under way.
func (r *requester) under() int { return int(r.cur - r.una) }

// nextRequest makes the next packet of the send queue, if one may be sent.
func (q *QP) nextRequest(now time.Duration, p *Packet) bool {
	r := &q.req
	if q.state != Established || now < r.timing.resume {
		return false
	}
	if r.inquire {
		q.inquiry(p)
		return true
	}
	var e *entry
	for ; ; r.next++ {
		if r.next == r.ring.tail {
			return false
		}
		e = r.ring.at(int(r.next - r.ring.head))
		if r.cur < e.seq+uint64(e.count) {
			break
		}
	}
	space := r.window.size - r.under()
	if space <= 0 || r.next-r.ring.head >= requestsMax {
		return false
	}
	done := int(r.cur - e.seq)
	n := 1
	if e.op == verbs.OpRead {
		if len(r.reads) >= q.peer.ReadsOut {
			return false
		}
		// The end of a piece does not depend on where it begins: asked for
		// again, it may not go beyond what was asked for first.
		n = min(e.count-done, r.piece-done%r.piece)
		if n > space && r.under() > 0 {
			return false
		}
		q.readPacket(p, e, done, n)
		r.reads = append(r.reads, span{r.cur, r.cur + uint64(n)})
	} else {
		q.dataPacket(p, e, done)
	}
	if r.cur == r.top && p.Header.AckReq {
		r.timing.sample(now, r.cur+uint64(n-1))
	}
	r.cur += uint64(n)
	r.top = max(r.top, r.cur)
	r.timing.arm(now)
	return true
}

// readPacket asks for n packets of e from packet done on.
func (q *QP) readPacket(p *Packet, e *entry, done, n int) {
	off := done * q.peer.MTU
	h := q.begin(p, packet.ReadRequest, q.req.psn(q.req.cur))
	h.AckReq = true
	h.RETH = packet.RETH{VA: e.addr + uint64(off), RKey: e.rkey, Len: uint32(min(e.total-off, n*q.peer.MTU))}
	q.req.ask()
}

// dataPacket is packet number done of e.
func (q *QP) dataPacket(p *Packet, e *entry, done int) {
	r := &q.req
	off := done * q.peer.MTU
	n := min(e.total-off, q.peer.MTU)
	first, last := done == 0, done == e.count-1
	h := q.begin(p, dataOpcode(e.op, first, last), r.psn(r.cur))
	switch {
	case e.op == verbs.OpSendInvalidate:
		if last {
			h.IETH = e.rkey
		}
	case e.op != verbs.OpSend && first:
		h.RETH = packet.RETH{VA: e.addr, RKey: e.rkey, Len: uint32(e.total)}
	}
	p.Payload = e.local.Slice(p.Payload, off, n)
	h.PadCount = uint8(-n & 3)
	r.unasked++
	if last && !q.dataFollows() || r.under()+1 >= r.window.size || r.unasked >= r.window.size/4 || r.next-r.asked >= requestsMax/4 {
		h.AckReq = true
		r.ask()
	}
}

// ask records that a packet of the current request asks for an acknowledgement.
func (r *requester) ask() { r.unasked, r.asked = 0, r.next }

// dataFollows reports whether the request after next is one whose packets may ask
// for the acknowledgement instead.
func (q *QP) dataFollows() bool {
	r := &q.req
	for i := r.next + 1; i < r.ring.tail; i++ {
		if e := r.ring.at(int(i - r.ring.head)); e.count > 0 {
			return e.op != verbs.OpRead
		}
	}
	return false
}

func dataOpcode(op verbs.Op, first, last bool) packet.Opcode {
	at := 0
	switch {
	case first && last:
		at = 3
	case first:
		at = 0
	case last:
		at = 2
	default:
		at = 1
	}
	switch op {
	case verbs.OpSend:
		return [...]packet.Opcode{packet.SendFirst, packet.SendMiddle, packet.SendLast, packet.SendOnly}[at]
	case verbs.OpSendInvalidate:
		return [...]packet.Opcode{packet.SendFirst, packet.SendMiddle, packet.SendLastInv, packet.SendOnlyInv}[at]
	}
	return [...]packet.Opcode{packet.WriteFirst, packet.WriteMiddle, packet.WriteLast, packet.WriteOnly}[at]
}

// response processes a response. One that is older than una, or for a request
// that was never sent, is late or forged and is dropped.
func (q *QP) response(now time.Duration, h *packet.Header, payload []byte) {
	r := &q.req
	d := h.PSN.Sub(r.psn(r.una))
	if d < 0 || r.una+uint64(d) >= r.top {
		return
	}
	seq := r.una + uint64(d)
	switch {
	case h.Op.IsReadResponse():
		if q.acknowledge(now, seq) {
			q.readResponse(now, h, payload)
		}
	case h.Op != packet.Acknowledge:
		q.violated(h.Op, "answers nothing that was asked")
	case h.AETH.Syndrome&synKind == 0:
		q.acknowledge(now, seq+1)
	case h.AETH.Syndrome&synKind == synRNR:
		if q.acknowledge(now, seq) {
			q.notReady(now, h.AETH.Syndrome&synRNRTimer)
		}
	case h.AETH.Syndrome == synSequence:
		if q.acknowledge(now, seq) {
			q.missed = true
			q.lost()
		}
	default:
		if q.acknowledge(now, seq) {
			q.Fail(&Refused{h.AETH.Syndrome})
		}
	}
}

// acknowledge records that the peer has all before number to. It stops at
// a READ whose bytes have not come: then they, or the request, were lost.
func (q *QP) acknowledge(now time.Duration, to uint64) (all bool) {
	r := &q.req
	for r.una < to {
		e := r.ring.at(0)
		if e.op == verbs.OpRead {
			if r.recovered != r.una {
				r.recovered = r.una
				q.lost()
			}
			return false
		}
		q.progress(now, min(to, e.seq+uint64(e.count)))
	}
	return true
}

// progress moves una to the number to and completes what lies before.
func (q *QP) progress(now time.Duration, to uint64) {
	r := &q.req
	if e := r.ring.at(0); to > r.una && q.large(e.total-int(r.una-e.seq)*q.peer.MTU) {
		r.passed[way(e.op)] = true
	}
	r.blocked.count = 0
	r.window.grow(int(to - r.una))
	r.una = to
	r.cur = max(r.cur, to)
	gone := 0
	for gone < len(r.reads) && r.reads[gone].to <= to {
		gone++
	}
	r.reads = append(r.reads[:0], r.reads[gone:]...)
	r.timing.progress(now, to, r.una != r.top)
	q.retire()
}

// readResponse places a packet of a READ's answer. The packet is number una.
// First, Middle, Last and Only are not distinguished: the answer may be to a request
// that was sent before the last, for other pieces of the same bytes.
func (q *QP) readResponse(now time.Duration, h *packet.Header, payload []byte) {
	r := &q.req
	e := r.ring.at(0)
	if e.op != verbs.OpRead {
		q.violated(h.Op, "answers a request that is not a READ")
		return
	}
	off := int(r.una-e.seq) * q.peer.MTU
	if len(payload) != min(q.peer.MTU, e.total-off) {
		q.violated(h.Op, "wrong length")
		return
	}
	e.local.CopyIn(off, payload)
	q.progress(now, r.una+1)
}

// lost goes back to una because something was lost on the way.
func (q *QP) lost() {
	r := &q.req
	r.window.shrink()
	if r.timing.again() {
		q.Fail(ErrRetries)
		return
	}
	r.rewind()
}

func (r *requester) rewind() {
	r.cur, r.next = r.una, r.ring.head
	r.reads = r.reads[:0]
	r.ask()
	r.timing.unsample()
}

// notReady waits as long as the peer says.
func (q *QP) notReady(now time.Duration, timer uint8) {
	t := &q.req.timing
	t.notReady++
	if q.peer.RNRRetries < RNRForever && t.notReady > q.peer.RNRRetries {
		q.Fail(ErrNotReady)
		return
	}
	q.req.rewind()
	t.hold(now + rnrDelay(timer))
}

// expire sends again when nothing was acknowledged in time.
func (q *QP) expire(now time.Duration) {
	t := &q.req.timing
	if now >= t.resume {
		t.resume = 0
	}
	if t.armed && now >= t.expiry {
		t.backOff()
		q.missed = true
		q.lost()
		q.missing(now)
	}
}

func (q *QP) violated(op packet.Opcode, why string) { q.Fail(&Violation{op, why}) }
