package rc

import (
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// Limits of work requests.
const (
	MaxSGE   = 32
	MaxQueue = 1 << 14
	// MaxMessage keeps the packets of a message within a quarter of the
	// sequence numbers, even the smallest.
	MaxMessage   = 1 << 30
	MaxReadDepth = 128
	// RNRForever as Config.RNRRetries has no limit (a field of three bits).
	RNRForever = 7
)

// State is that of a queue pair.
type State uint8

const (
	// Idle takes receives, and no packets: the peer is not known yet.
	Idle State = iota
	// Receiving takes the peer's requests, and sends answers only: the peer
	// may not be ready.
	Receiving
	// Established does all.
	Established
	// Failed sends at most the NAK with the reason.
	Failed
	states
)

// admission says which packets a state takes. Others are dropped silently.
var admission = [states]struct{ requests, responses bool }{
	Idle:        {},
	Receiving:   {requests: true},
	Established: {requests: true, responses: true},
	Failed:      {},
}

// Config is what a queue pair is made with.
type Config struct {
	SendQueue, RecvQueue int
	// Address is the remote address of the first byte of a segment; ok is
	// false when it is not wholly in registered memory.
	Address func(mem.Seg) (va uint64, ok bool)
}

// Peer is what set-up negotiates.
type Peer struct {
	QPN uint32
	MTU int
	// SendPSN numbers the first request to the peer, RecvPSN its first one.
	SendPSN, RecvPSN  packet.PSN
	ReadsIn, ReadsOut int
	// RNRRetries is how often to try again when the peer is not ready.
	RNRRetries int
	// Room is what this side's socket can hold for the connection, in bytes, 0 if that
	// is not known. See QP.Share.
	Room int
}

// QP is a queue pair.
type QP struct {
	config Config
	peer   Peer
	state  State
	err    error // why it failed

	memory memory
	req    requester
	resp   responder

	// recvs are the receives posted and not consumed; busy counts completions
	// of receives, signaled those of requests, that were not reaped.
	recvs          ring[verbs.RecvWR]
	done           ring[verbs.Completion]
	busy, signaled int

	// missed: the peer seems to have missed something since Missed was asked.
	missed bool
	// heard is when the peer last sent a valid packet.
	heard time.Duration
	// suspect is what Suspect says.
	suspect bool
	// turn alternates requests and answers; ahead counts packets of requests that went
	// before an acknowledgement.
	turn  bool
	ahead int
}

// New makes a queue pair in state Idle.
func New(c Config) *QP {
	q := &QP{config: c}
	q.memory.keys = make(map[uint32]*Window)
	q.req.ring = newRing[entry](c.SendQueue + 1) // one for the probe
	q.recvs = newRing[verbs.RecvWR](c.RecvQueue)
	q.done = newRing[verbs.Completion](c.SendQueue + c.RecvQueue)
	return q
}

// Connect makes the peer known; the state becomes Receiving.
func (q *QP) Connect(now time.Duration, p Peer) {
	if q.state != Idle {
		return
	}
	q.peer = p
	q.state = Receiving
	q.heard = now
	q.req.connect(&q.peer)
	q.resp.connect(&q.peer)
}

// Establish lets a connected queue pair send requests.
func (q *QP) Establish() {
	if q.state == Receiving {
		q.state = Established
	}
}

// State is the state.
func (q *QP) State() State { return q.state }

// Err is why the queue pair failed, nil while it did not.
func (q *QP) Err() error { return q.err }

// Fail ends everything. What was completed can still be reaped.
func (q *QP) Fail(err error) {
	if q.state == Failed {
		return
	}
	q.suspect = q.suspicious(err)
	q.state, q.err = Failed, err
	q.memory.revokeAll()
	q.resp.answers = q.resp.answers[:0]
	q.recvs.clear()
}

// Share says what this side's socket can hold for the connection now, in bytes: as much is
// asked for by READs, and nothing better is known of the peer's socket.
func (q *QP) Share(room int) {
	if q.peer.Room != room && q.state != Idle {
		q.peer.Room = room
		q.req.window.share(room)
	}
}

// Receive takes a packet of the peer's that is whole and from the right
// address. It borrows payload.
func (q *QP) Receive(now time.Duration, h *packet.Header, payload []byte) {
	a := admission[q.state]
	switch {
	case h.Op.IsRequest() && a.requests:
		q.heard = now
		// Requests show that the peer knows this side: the message that
		// says so may be lost.
		q.Establish()
		q.request(h, payload)
	case h.Op.IsResponse() && a.responses:
		q.heard = now
		q.response(now, h, payload)
	}
}

// Packet is a packet to send: a header, and the memory that holds its payload.
type Packet struct {
	Header  packet.Header
	Payload mem.Vec
}

// aheadMax is how many packets of requests go before an acknowledgement. It leaves then with the
// last of them, in one run: packets of a run have one size, but the last may be shorter.
const aheadMax = 8

// Next fills p with the next packet to send now, and reports whether there is one. The
// payload is borrowed memory: good until the next call of any method.
func (q *QP) Next(now time.Duration, p *Packet) bool {
	p.Payload = p.Payload[:0]
	if q.resp.acknowledges() {
		if q.ahead < aheadMax && q.nextRequest(now, p) {
			q.ahead++
			return true
		}
		q.ahead = 0
		return q.nextAnswer(now, p)
	}
	q.turn = !q.turn
	if q.turn {
		return q.nextAnswer(now, p) || q.nextRequest(now, p)
	}
	return q.nextRequest(now, p) || q.nextAnswer(now, p)
}

func (q *QP) begin(p *Packet, op packet.Opcode, psn packet.PSN) *packet.Header {
	p.Header = packet.Header{Op: op, PKey: packet.DefaultPKey, DestQP: q.peer.QPN, PSN: psn}
	return &p.Header
}

// Never is a deadline that does not come.
const Never = time.Duration(1<<63 - 1)

// Deadline is when Advance wants to be called next.
func (q *QP) Deadline() time.Duration {
	if q.state != Receiving && q.state != Established {
		return Never
	}
	return min(q.req.deadline(), q.resp.deadline(), q.probeAt())
}

// Advance does what is due. What it wants to send, Next has.
func (q *QP) Advance(now time.Duration) {
	if q.state != Established {
		return
	}
	q.expire(now)
	if q.state == Established && now >= q.probeAt() {
		q.probe()
	}
}

// PostRecv appends a receive.
func (q *QP) PostRecv(wr *verbs.RecvWR) error {
	if q.err != nil {
		return q.err
	}
	if q.recvs.len()+q.busy >= q.config.RecvQueue {
		return verbs.ErrQueueFull
	}
	if _, ok := q.config.Address(wr.Buf); !ok {
		return &verbs.UsageError{Op: verbs.OpRecv, Why: "buffer is not in registered memory"}
	}
	q.recvs.push(*wr)
	return nil
}

// Missed reports whether the peer seems to have missed something that was sent since
// the last call.
func (q *QP) Missed() bool {
	m := q.missed
	q.missed = false
	return m
}

// Completed reports whether Reap would return something.
func (q *QP) Completed() bool { return q.done.len() > 0 }

// Reap moves completions to wc.
func (q *QP) Reap(wc []verbs.Completion) int { return q.reap(wc, false) }

// ReapSends moves those to wc that come before the first receive's.
func (q *QP) ReapSends(wc []verbs.Completion) int { return q.reap(wc, true) }

func (q *QP) reap(wc []verbs.Completion, sends bool) (n int) {
	for n < len(wc) && q.done.len() > 0 {
		c := q.done.at(0)
		switch {
		case c.Op != verbs.OpRecv:
			q.signaled--
		case sends:
			return n
		default:
			q.busy--
		}
		wc[n] = *c
		q.done.pop()
		n++
	}
	return n
}
