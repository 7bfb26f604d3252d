package rc

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// A path may take fewer bytes than the path MTU that both ends believe in: a
// host with jumbo frames behind a switch, or before a server, without. Small
// packets pass, large ones vanish silently. A packet is large if it would not fit
// the next smaller path MTU.

const (
	// blockedTries and blockedTime are how often and for how long a large packet
	// must be missing, and nothing else go on, before the path is to blame.
	blockedTries = 4
	blockedTime  = 2 * time.Second
	// signInterval is the least time between two signs: one loss causes many.
	signInterval = 10 * time.Millisecond
	// suspectTries is enough when the connection ends.
	suspectTries = 3
	// leastMTU is the smallest path MTU.
	leastMTU = 256
)

// ErrTooLarge says that packets of the path MTU do not reach the other side,
// while smaller ones do.
type ErrTooLarge struct{ MTU int }

func (e *ErrTooLarge) Error() string {
	return fmt.Sprintf("packets of %d bytes of payload are lost on the way, smaller ones are not", e.MTU)
}

// blocked counts signs that one large packet does not pass.
type blocked struct {
	count       int
	since, last time.Duration
}

// sign adds one, and reports whether there are enough.
func (b *blocked) sign(now time.Duration) bool {
	if b.count == 0 {
		b.since = now
	} else if now-b.last < signInterval {
		return false
	}
	b.count++
	b.last = now
	return b.count >= blockedTries && now-b.since >= blockedTime
}

func (q *QP) large(n int) bool { return n > q.peer.MTU/2 && q.peer.MTU > leastMTU }

// way is which way the data of a request goes: 0 to the peer, 1 from it.
func way(op verbs.Op) int {
	if op == verbs.OpRead {
		return 1
	}
	return 0
}

// stuck reports whether the requester waits for a large packet to pass, or for a large
// response, and none has passed that way before.
func (q *QP) stuck() bool {
	r := &q.req
	if r.ring.len() == 0 || r.una == r.top {
		return false
	}
	e := r.ring.at(0)
	return q.large(e.total-int(r.una-e.seq)*q.peer.MTU) && !r.passed[way(e.op)]
}

// missing is called when nothing was acknowledged in time. Only a peer that
// goes on answering small packets shows that the path is to blame.
func (q *QP) missing(now time.Duration) {
	b := &q.req.blocked
	if !q.stuck() {
		return
	}
	heard := q.heard > b.last
	if b.sign(now) && heard {
		q.tooLarge()
	}
	q.req.inquire = true
}

// inquiry asks for a sign of life: a zero-length WRITE that looks like one sent
// before, which any responder acknowledges once more and does not carry out.
func (q *QP) inquiry(p *Packet) {
	r := &q.req
	r.inquire = false
	h := q.begin(p, packet.WriteOnly, r.psn(r.una).Add(-1))
	h.AckReq = true
}

// unread is called when the peer asks for rd again, from packet skip on.
func (q *QP) unread(rd *read, skip int) {
	if skip != rd.skipped {
		rd.skipped, rd.blocked = skip, blocked{}
	}
	if q.large(rd.length - skip*q.peer.MTU) {
		if rd.blocked.sign(q.heard) {
			q.tooLarge()
		}
	}
	q.resp.unread = rd.blocked.count
}

// gap is called when a request comes whose predecessor is missing, or the peer
// inquires because something is.
func (q *QP) gap() {
	if q.peer.MTU > leastMTU && q.resp.gap.sign(q.heard) {
		q.tooLarge()
	}
}

func (q *QP) tooLarge() { q.Fail(&ErrTooLarge{q.peer.MTU}) }

// Suspect reports, of a queue pair that has failed, whether packets of its path
// MTU may not pass.
func (q *QP) Suspect() bool { return q.suspect }

// suspicious is Suspect when err ends the queue pair.
func (q *QP) suspicious(err error) bool {
	var large *ErrTooLarge
	if errors.As(err, &large) {
		return true
	}
	b := &q.req.blocked
	return q.resp.gap.count >= suspectTries || q.resp.unread >= suspectTries ||
		b.count >= suspectTries && q.stuck() && q.heard > b.since
}
