package callback

import (
	"slices"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// slot is one slot of the back channel, from the side that replies (RFC 8881 section 2.10.6.1).
type slot struct {
	// seq is the sequence ID of the last call.
	seq  uint32
	busy bool
	// ops are the operations of the last call, and reply what it was answered with.
	ops   []wire.CBOp
	reply []byte
}

// begin decides about CB_SEQUENCE at the beginning of c. With OK and no replay the call is to be carried out, and
// end must follow.
func (s *Service) begin(c *wire.CBCompound, q *wire.CBSequence) (sl *slot, replay []byte, st wire.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known || q.Session != s.ses.ID {
		if s.creating {
			return nil, nil, wire.ErrDelay
		}
		return nil, nil, wire.ErrBadSession
	}
	switch {
	case c.Minor != s.ses.Minor:
		return nil, nil, wire.ErrMinorVersMismatch
	case q.Slot >= uint32(len(s.slots)):
		return nil, nil, wire.ErrBadSlot
	case q.HighestSlot >= uint32(len(s.slots)):
		return nil, nil, wire.ErrBadHighSlot
	}
	sl = &s.slots[q.Slot]
	ops := kinds(c)
	switch {
	case q.SequenceID == sl.seq+1 && !sl.busy:
		if len(c.Ops) > maxOps {
			return nil, nil, wire.ErrTooManyOps
		}
		sl.seq, sl.busy, sl.ops, sl.reply = q.SequenceID, true, ops, nil
		return sl, nil, wire.OK
	case q.SequenceID != sl.seq || sl.ops == nil:
		return nil, nil, wire.ErrSeqMisordered
	case sl.busy:
		return nil, nil, wire.ErrDelay
	case !slices.Equal(ops, sl.ops):
		return nil, nil, wire.ErrSeqFalseRetry
	}
	return sl, sl.reply, wire.OK
}

// end keeps the reply of a call that begin has let through.
func (s *Service) end(sl *slot, reply []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.busy, sl.reply = false, reply
}

func kinds(c *wire.CBCompound) []wire.CBOp {
	ops := make([]wire.CBOp, 0, len(c.Ops))
	for _, o := range c.Ops {
		ops = append(ops, o.Op())
	}
	return ops
}
