package rc

import "github.com/rdmafs/rdmafs/verbs/roce/packet"

// phase is where the responder stands between packets of the peer's requests.
type phase uint8

const (
	between phase = iota
	inSend
	inWrite
	phases
)

// step is what a request packet in its turn calls for.
type step uint8

const (
	// refuse: the opcode does not fit the phase, or is not supported.
	refuse step = iota
	stepSend
	stepWrite
	stepRead
)

// part is which part of its message a packet is.
type part uint8

const (
	first part = 1 << iota
	last
	middle = part(0)
	only   = first | last
)

// parts has the opcodes of messages that this side takes.
var parts = map[packet.Opcode]struct {
	step step
	part part
}{
	packet.SendFirst:   {stepSend, first},
	packet.SendMiddle:  {stepSend, middle},
	packet.SendLast:    {stepSend, last},
	packet.SendLastInv: {stepSend, last},
	packet.SendOnly:    {stepSend, only},
	packet.SendOnlyInv: {stepSend, only},
	packet.WriteFirst:  {stepWrite, first},
	packet.WriteMiddle: {stepWrite, middle},
	packet.WriteLast:   {stepWrite, last},
	packet.WriteOnly:   {stepWrite, only},
	packet.ReadRequest: {stepRead, only},
}

// turn is an entry of the sequence table.
type turn struct {
	step step
	part part
	next phase
}

// sequence says what a packet with the expected PSN means in each phase: a
// message begins between messages only, goes on as what it began, and nothing
// comes in between.
var sequence = func() (t [phases][256]turn) {
	for op, x := range parts {
		inside := inSend
		if x.step == stepWrite {
			inside = inWrite
		}
		from, to := inside, inside
		if x.part&first != 0 {
			from = between
		}
		if x.part&last != 0 {
			to = between
		}
		t[from][op] = turn{x.step, x.part, to}
	}
	return t
}()

// fits reports whether a packet of the given part has a length it may have: all but the last
// are full, and the last of several is not empty.
func (p part) fits(n, mtu int) bool {
	switch p {
	case only:
		return n <= mtu
	case last:
		return n > 0 && n <= mtu
	}
	return n == mtu
}
