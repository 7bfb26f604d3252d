package state

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// slot is one slot of a fore channel and its reply cache (section 2.10.6.1).
type slot struct {
	// seq is the sequence id of the last call.
	seq uint32
	// used: there was one. inUse: it is under way. retired: the client has given the
	// slot back since.
	used, inUse, retired bool
	// Of the last call: who sent it, what it was, and its result, nil if that was not
	// kept.
	principal string
	ops       int
	cacheThis bool
	digest    uint64
	reply     []byte
	// told is the generation of the table that the last reply spoke of.
	told int
}

// slotTable is the slots of a session. Those from size on are given back by the client;
// they keep their sequence ids: a client may go on from there, or begin at 1.
type slotTable struct {
	all    []*slot
	size   uint32
	target uint32
	// asked is how many the client wanted, or Config.Slots.
	asked uint32
	// generation counts the changes of target.
	generation int
}

// resize sets how many slots the client may use, now or, if they become fewer, once the
// client knows it.
func (t *slotTable) resize(n uint32) {
	t.target = n
	t.generation++
	for uint32(len(t.all)) < n {
		t.all = append(t.all, &slot{})
	}
	t.size = max(t.size, n)
}

func (t *slotTable) inUse() (n int) {
	for _, s := range t.all {
		if s.inUse {
			n++
		}
	}
	return n
}

// retire takes away the slots above the target if the client has said that it uses none of
// them, in a call in slot s that it sent knowing of the target.
func (t *slotTable) retire(s *slot, highest uint32) {
	if t.size <= t.target || s.told != t.generation || highest >= t.target {
		return
	}
	for t.size > t.target && !t.all[t.size-1].inUse {
		t.size--
		t.all[t.size].retired = true
	}
}

// Compound is what SEQUENCE must know of the COMPOUND that it begins.
type Compound struct {
	// Ops is how many operations there are, SEQUENCE included.
	Ops int
	// Size is the length of the RPC message with all its data; 0 if it is not known.
	Size int
	// Digest, if not 0, tells one COMPOUND from another: a hash over the arguments. Two
	// calls in one slot with one sequence id and different digests are no retry.
	Digest uint64
}

// Call is a COMPOUND that SEQUENCE has begun.
type Call struct {
	// Replay, if not nil, is the encoded result of this COMPOUND, carried out earlier.
	// Uncached says that it was carried out and the result not kept.
	Replay   []byte
	Uncached bool
	// Client and Session are whose it is.
	Client  wire.ClientID
	Session wire.SessionID
	// MaxReply bounds the reply, RPC header included. MaxCached, if not 0, does so too,
	// as the client wants the reply kept. A server answers ErrRepTooBig or
	// ErrRepTooBigToCache before it carries out an operation whose result may not fit.
	MaxReply, MaxCached int

	m           *Machine
	client      *client
	session     *session
	slot        *slot
	seq, slotID uint32
}

// Sequence is SEQUENCE (section 18.46); see the package comment for what follows it. If it
// returns ErrDelay, the first call with this sequence id is still being carried out.
func (m *Machine) Sequence(p Peer, a *wire.Sequence, in Compound) (*Call, wire.Status) {
	m.enter()
	defer m.leave()
	s := m.sessions[a.Session]
	if s == nil {
		return nil, wire.ErrBadSession
	}
	t := &s.slots
	switch {
	case a.Slot >= t.size:
		return nil, wire.ErrBadSlot
	case a.HighestSlot >= t.size:
		return nil, wire.ErrBadHighSlot
	case uint32(in.Ops) > s.fore.MaxOps:
		return nil, wire.ErrTooManyOps
	case in.Size > int(s.fore.MaxRequest):
		return nil, wire.ErrReqTooBig
	}
	sl := t.all[a.Slot]
	c := &Call{Client: s.client.id, Session: s.id, m: m, client: s.client, session: s, seq: a.SequenceID, slotID: a.Slot}
	c.MaxReply = int(s.fore.MaxResponse)
	switch again := a.SequenceID == sl.seq; {
	case sl.inUse && again:
		return nil, wire.ErrDelay
	case sl.inUse:
		return nil, wire.ErrSeqMisordered
	case sl.retired && a.SequenceID == 1: // begins anew, whatever was there before
	case again && sl.used:
		if sl.principal != p.Principal || sl.ops != in.Ops || sl.cacheThis != a.CacheThis ||
			sl.digest != 0 && in.Digest != 0 && sl.digest != in.Digest {
			return nil, wire.ErrSeqFalseRetry
		}
		s.bind(p.Conn, wire.BoundFore)
		m.renew(s.client)
		c.Replay = sl.reply
		c.Uncached = sl.reply == nil
		m.sequenced(s, sl, a)
		return c, wire.OK
	case a.SequenceID == sl.seq+1:
	default:
		return nil, wire.ErrSeqMisordered
	}
	t.retire(sl, a.HighestSlot)
	s.bind(p.Conn, wire.BoundFore)
	m.renew(s.client)
	*sl = slot{
		seq: a.SequenceID, used: true, inUse: true, told: t.generation,
		principal: p.Principal, ops: in.Ops, cacheThis: a.CacheThis, digest: in.Digest,
	}
	s.client.calls++
	c.slot = sl
	if a.CacheThis {
		c.MaxCached = int(s.fore.MaxResponseCached)
	}
	m.sequenced(s, sl, a)
	return c, wire.OK
}

// sequenced fills in the results of SEQUENCE. mu is held.
func (m *Machine) sequenced(s *session, sl *slot, a *wire.Sequence) {
	t := &s.slots
	a.ResSession, a.ResSequenceID, a.ResSlot = a.Session, a.SequenceID, a.Slot
	a.ResHighestSlot, a.TargetHighestSlot = t.size-1, t.target-1
	a.StatusFlags = m.status(s)
}

// renew renews a lease, unless all it was good for is gone. mu is held.
func (m *Machine) renew(c *client) {
	if !c.allExpired {
		c.expires = m.now.Add(m.cfg.Lease)
	}
}

// End ends a COMPOUND. reply is its encoded result (COMPOUND4res, payloads inline), which is
// copied if it has to be kept; nil if it cannot be. Only calls to carry out are ended.
func (c *Call) End(reply []byte) {
	c.m.enter()
	defer c.m.leave()
	sl := c.slot
	if sl == nil || !sl.inUse {
		panic("state: End of a call that is not under way")
	}
	sl.inUse = false
	c.client.calls--
	c.m.renew(c.client)
	// A lone SEQUENCE is kept in any case: clients learn from it where a slot stands.
	if (sl.cacheThis || sl.ops == 1) && reply != nil {
		sl.reply = append([]byte{}, reply...)
	}
}

// SequenceStatus is the status bits of SEQUENCE as they are now, for a reply that is made
// later than Sequence.
func (m *Machine) SequenceStatus(c *Call) uint32 {
	m.enter()
	defer m.leave()
	return m.status(c.session)
}

// status is the status bits. mu is held.
func (m *Machine) status(s *session) (bits uint32) {
	c := s.client
	for h := range c.revoked {
		bits |= h.revokedBit()
	}
	if c.allExpired && bits&wire.SeqExpiredSomeStateRevoked != 0 {
		bits = bits&^wire.SeqExpiredSomeStateRevoked | wire.SeqExpiredAllStateRevoked
	}
	if m.inGrace() && m.reclaimers[c.owner] && !c.completed {
		bits |= wire.SeqRestartReclaimNeeded
	}
	if s.wantsBack && !s.hasBack() {
		bits |= wire.SeqCBPathDownSession
		if !c.hasBack() {
			bits |= wire.SeqCBPathDown
		}
	}
	if s.fault {
		bits |= wire.SeqBackchannelFault
	}
	return bits
}
