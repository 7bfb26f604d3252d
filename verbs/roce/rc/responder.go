package rc

import (
	"fmt"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// rnrTimer is the code of the delay that this side asks for when no receive is
// posted: 10 ms.
const rnrTimer = 20

// responder is what the peer's requests meet.
type responder struct {
	// expect is the PSN of the next request packet, msn counts messages.
	expect packet.PSN
	msn    uint32
	// silent: a NAK was sent, and nothing more is said until the expected packet
	// comes.
	silent bool

	phase phase
	// recv is the receive that an unfinished SEND fills, up to off.
	recv verbs.RecvWR
	off  int
	// write is what an unfinished WRITE has left.
	write packet.RETH

	answers []answer
	// gap and unread are signs that large packets do not pass: see passage.go.
	gap    blocked
	unread int

	// past are the last READs that were answered or are being answered.
	past ring[read]

	pace pacer
}

func (r *responder) connect(p *Peer) {
	r.expect = p.RecvPSN
	r.past = newRing[read](p.ReadsIn)
	r.answers = make([]answer, 0, maxAnswers(p.ReadsIn))
	r.pace = newPacer()
}

// request takes a request packet.
func (q *QP) request(h *packet.Header, payload []byte) {
	r := &q.resp
	switch d := h.PSN.Sub(r.expect); {
	case d > 0:
		if !r.silent {
			r.silent = true
			q.answer(answer{psn: r.expect, syndrome: synSequence})
		}
		q.gap()
		return
	case d < 0:
		q.duplicate(h)
		return
	}
	r.silent = false
	r.gap.count, r.unread = 0, 0
	t := sequence[r.phase][h.Op]
	if t.step != refuse && t.step != stepRead && !t.part.fits(len(payload), q.peer.MTU) {
		q.refuse(h, synInvalid, fmt.Sprintf("%d bytes with a path MTU of %d", len(payload), q.peer.MTU))
		return
	}
	var ok bool
	switch t.step {
	case stepSend:
		ok = q.stepSend(h, t.part, payload)
	case stepWrite:
		ok = q.stepWrite(h, t.part, payload)
	case stepRead:
		ok = q.stepRead(h, payload)
	default:
		q.refuse(h, synInvalid, "out of place, or not supported")
	}
	if !ok {
		return
	}
	r.phase = t.next
	if t.step == stepRead {
		return
	}
	r.expect = r.expect.Add(1)
	if t.part&last != 0 {
		r.msn++
	}
	if h.AckReq {
		q.acknowledged(h.PSN)
	}
}

// refuse ends the connection and has a NAK say so.
func (q *QP) refuse(h *packet.Header, syndrome uint8, why string) {
	q.Fail(&Violation{h.Op, why})
	q.resp.answers = append(q.resp.answers, answer{psn: h.PSN, syndrome: syndrome})
}

// stepSend places a packet of a SEND in its receive.
func (q *QP) stepSend(h *packet.Header, p part, payload []byte) bool {
	r := &q.resp
	if p&first != 0 {
		if q.recvs.len() == 0 {
			r.silent = true
			q.answer(answer{psn: h.PSN, syndrome: synRNR | rnrTimer})
			return false
		}
		r.recv, r.off = *q.recvs.at(0), 0
		q.recvs.pop()
		q.busy++
	}
	if len(payload) > r.recv.Buf.Len-r.off {
		q.refuse(h, synInvalid, fmt.Sprintf("message longer than the %d bytes of the receive", r.recv.Buf.Len))
		return false
	}
	copy(r.recv.Buf.Bytes()[r.off:], payload)
	r.off += len(payload)
	if p&last == 0 {
		return true
	}
	wc := verbs.Completion{ID: r.recv.ID, Op: verbs.OpRecv, Len: r.off}
	if h.Op == packet.SendOnlyInv || h.Op == packet.SendLastInv {
		if !q.memory.invalidate(h.IETH) {
			q.refuse(h, synAccess, fmt.Sprintf("key %#x to invalidate is not bound", h.IETH))
			return false
		}
		wc.Invalidated, wc.InvalidatedKey = true, h.IETH
	}
	r.recv = verbs.RecvWR{}
	q.done.push(wc)
	return true
}

// stepWrite places a packet of a WRITE. The whole message is checked before its
// first byte is placed, and each packet again: the window may be gone by then.
func (q *QP) stepWrite(h *packet.Header, p part, payload []byte) bool {
	w := &q.resp.write
	n := uint32(len(payload))
	if p&first != 0 {
		*w = h.RETH
		if w.Len > MaxMessage {
			q.refuse(h, synInvalid, fmt.Sprintf("message of %d bytes", w.Len))
			return false
		}
		if _, err := q.memory.reach(w.RKey, w.VA, int(w.Len), verbs.RemoteWrite); err != nil {
			q.refuse(h, synAccess, err.Error())
			return false
		}
	}
	if ends := p&last != 0; n > w.Len || ends != (n == w.Len) {
		q.refuse(h, synInvalid, fmt.Sprintf("%d bytes where %d are left", n, w.Len))
		return false
	}
	to, err := q.memory.reach(w.RKey, w.VA, len(payload), verbs.RemoteWrite)
	if err != nil {
		q.refuse(h, synAccess, err.Error())
		return false
	}
	copy(to.Bytes(), payload)
	w.VA += uint64(n)
	w.Len -= n
	return true
}

// stepRead notes a READ to be answered.
func (q *QP) stepRead(h *packet.Header, payload []byte) bool {
	r := &q.resp
	n := h.RETH.Len
	switch {
	case len(payload) > 0:
		q.refuse(h, synInvalid, "request with a payload")
		return false
	case n > MaxMessage:
		q.refuse(h, synInvalid, fmt.Sprintf("READ of %d bytes", n))
		return false
	case r.reading() >= q.peer.ReadsIn:
		q.refuse(h, synInvalid, fmt.Sprintf("more than %d READs outstanding", q.peer.ReadsIn))
		return false
	}
	if _, err := q.memory.reach(h.RETH.RKey, h.RETH.VA, int(n), verbs.RemoteRead); err != nil {
		q.refuse(h, synAccess, err.Error())
		return false
	}
	rd := read{psn: h.PSN, key: h.RETH.RKey, va: h.RETH.VA, length: int(n), count: packet.Count(int(n), q.peer.MTU)}
	if r.past.len() == len(r.past.items) {
		r.past.pop()
	}
	r.past.push(rd)
	r.expect = r.expect.Add(rd.count)
	r.msn++
	q.answer(answer{psn: h.PSN, read: rd})
	return true
}

// duplicate answers a request again that came before.
func (q *QP) duplicate(h *packet.Header) {
	r := &q.resp
	if h.Op != packet.ReadRequest {
		q.acknowledged(r.expect.Add(-1))
		if h.Op == packet.WriteOnly && h.RETH.Len == 0 {
			q.gap() // an inquiry
		}
		return
	}
	n := int(h.RETH.Len)
	// The latest first: numbers come round.
	for i := r.past.len() - 1; i >= 0; i-- {
		rd := r.past.at(i)
		skip := h.PSN.Sub(rd.psn)
		if skip < 0 || skip >= rd.count {
			continue
		}
		off := skip * q.peer.MTU
		if h.RETH.RKey != rd.key || h.RETH.VA != rd.va+uint64(off) || h.RETH.Len > MaxMessage || n > rd.length-off {
			return
		}
		q.unread(rd, skip)
		q.replay(read{psn: h.PSN, key: rd.key, va: h.RETH.VA, length: n, count: packet.Count(n, q.peer.MTU), again: true})
		return
	}
}
