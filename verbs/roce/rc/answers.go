package rc

import (
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// read is a READ of the peer's that was found good.
type read struct {
	psn    packet.PSN
	key    uint32
	va     uint64
	length int
	// count is the number of packets of the answer; 0 when this is none.
	count int
	// again: it has been answered before.
	again bool
	// skipped is from which packet on the peer last asked for it again, blocked
	// how often.
	skipped int
	blocked blocked
}

// answer is one entry of the responder's queue to the peer: an acknowledgement
// or NAK, or a READ's responses, of which sent have been sent.
type answer struct {
	psn      packet.PSN
	syndrome uint8
	read     read
	sent     int
}

// maxAnswers bounds the queue. A correct peer has readsIn READs outstanding, each
// with something to acknowledge behind it, and NAKs are few.
func maxAnswers(readsIn int) int { return 2*readsIn + 16 }

// answer appends to the queue. What does not fit is dropped: a peer that wants
// it will ask again.
func (q *QP) answer(a answer) {
	r := &q.resp
	if len(r.answers) < cap(r.answers) {
		r.answers = append(r.answers, a)
	}
}

// acknowledged acknowledges all up to psn, together with what waits to be.
func (q *QP) acknowledged(psn packet.PSN) {
	r := &q.resp
	if n := len(r.answers); n > 0 {
		if a := &r.answers[n-1]; a.syndrome == synAckUnlimited {
			a.psn = psn
			return
		}
	}
	q.answer(answer{psn: psn, syndrome: synAckUnlimited})
}

// acknowledges reports whether the next answer is an acknowledgement, or NAK.
func (r *responder) acknowledges() bool { return len(r.answers) > 0 && r.answers[0].read.count == 0 }

// Patient reports whether all there is to send is an acknowledgement, which may be
// delayed to be sent with other packets.
func (q *QP) Patient() bool {
	r := &q.resp
	return len(r.answers) == 1 && r.answers[0].syndrome == synAckUnlimited && q.req.cur == q.req.end
}

// reading is the number of READs that wait for the first time.
func (r *responder) reading() (n int) {
	for i := range r.answers {
		if rd := &r.answers[i].read; rd.count > 0 && !rd.again {
			n++
		}
	}
	return n
}

// short reports whether the peer has asked for so little that pacing would only
// delay it: it asks for more when it has received that.
func (r *responder) short() bool {
	n := 0
	for i := range r.answers {
		n += r.answers[i].read.count - r.answers[i].sent
	}
	return n <= windowMax
}

// replay answers a READ, or the rest of one, again. If it is being answered, the
// answer starts over; otherwise it goes before the READs that follow it, as the
// peer waits for it.
func (q *QP) replay(rd read) {
	r := &q.resp
	r.pace.slow()
	q.missed = true
	at := len(r.answers)
	for i := range r.answers {
		a := &r.answers[i]
		if a.read.count == 0 {
			continue
		}
		d := rd.psn.Sub(a.read.psn)
		if d >= 0 && d < a.read.count {
			rd.again = a.read.again
			*a = answer{psn: rd.psn, read: rd}
			return
		}
		if d < 0 {
			at = i
			break
		}
	}
	if len(r.answers) == cap(r.answers) {
		return
	}
	r.answers = append(r.answers, answer{})
	copy(r.answers[at+1:], r.answers[at:])
	r.answers[at] = answer{psn: rd.psn, read: rd}
}

// nextAnswer makes the next packet of the responder's queue.
func (q *QP) nextAnswer(now time.Duration, p *Packet) bool {
	r := &q.resp
	if len(r.answers) == 0 {
		return false
	}
	a := &r.answers[0]
	if a.read.count > 0 {
		if !r.short() && !r.pace.take(now) {
			return false
		}
		q.readAnswer(p, a)
		return true
	}
	h := q.begin(p, packet.Acknowledge, a.psn)
	h.AETH = packet.AETH{Syndrome: a.syndrome, MSN: r.msn & (1<<24 - 1)}
	r.drop()
	return true
}

// drop takes the first answer off. Moving the others down keeps the slice's
// memory; they are few.
func (r *responder) drop() { r.answers = append(r.answers[:0], r.answers[1:]...) }

// readAnswer makes the next packet of a READ's answer, or the NAK that ends it
// when the window is not bound any more. A READ answered before may be a
// straggler of one whose bytes the peer has: then the NAK is one, too, and
// nothing follows from it.
func (q *QP) readAnswer(p *Packet, a *answer) {
	r := &q.resp
	rd := &a.read
	off := a.sent * q.peer.MTU
	n := min(rd.length-off, q.peer.MTU)
	psn := rd.psn.Add(a.sent)
	from, err := q.memory.reach(rd.key, rd.va+uint64(off), n, verbs.RemoteRead)
	if err != nil {
		again := rd.again
		h := q.begin(p, packet.Acknowledge, psn)
		h.AETH = packet.AETH{Syndrome: synAccess, MSN: r.msn & (1<<24 - 1)}
		r.drop()
		if !again {
			q.Fail(&Violation{packet.ReadRequest, "window revoked while the peer was reading from it: " + err.Error()})
		}
		return
	}
	a.sent++
	var op packet.Opcode
	switch first, last := a.sent == 1, a.sent == rd.count; {
	case first && last:
		op = packet.ReadResponseOnly
	case first:
		op = packet.ReadResponseFirst
	case last:
		op = packet.ReadResponseLast
	default:
		op = packet.ReadResponseMiddle
	}
	h := q.begin(p, op, psn)
	if op != packet.ReadResponseMiddle {
		h.AETH = packet.AETH{Syndrome: synAckUnlimited, MSN: r.msn & (1<<24 - 1)}
	}
	h.PadCount = uint8(-n & 3)
	if n > 0 {
		p.Payload = append(p.Payload, from)
	}
	if a.sent == rd.count {
		r.drop()
	}
}

// deadline is when a READ may be answered further.
func (r *responder) deadline() time.Duration {
	if len(r.answers) == 0 || r.answers[0].read.count == 0 {
		return Never
	}
	return r.pace.ready()
}

// pacer spaces READ responses: nothing else would keep a long one from
// overrunning the queues on the way.
type pacer struct {
	// burst packets may be sent each paceInterval; left are those of now.
	burst, left int
	since       time.Duration
}

const (
	paceInterval = time.Millisecond
	paceMin      = 64
	paceMax      = 256
)

func newPacer() pacer { return pacer{burst: paceMax, left: paceMax} }

// take reports whether a packet may be sent now.
func (p *pacer) take(now time.Duration) bool {
	if now >= p.since+paceInterval {
		if p.left == 0 {
			p.burst = min(p.burst+2, paceMax)
		}
		p.since, p.left = now, p.burst
	}
	if p.left == 0 {
		return false
	}
	p.left--
	return true
}

// ready is when take will be true.
func (p *pacer) ready() time.Duration {
	if p.left > 0 {
		return 0
	}
	return p.since + paceInterval
}

// slow reduces the rate after the peer has lost something.
func (p *pacer) slow() {
	p.burst = max(p.burst*3/4, paceMin)
	p.left = min(p.left, p.burst)
}
