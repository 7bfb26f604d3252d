package callback

import (
	"bytes"
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

var _ transport.Handler = (*Service)(nil)

// specVersion is the version of the callback program that RFC 8881 section 18.36.3 names, against the XDR.
const specVersion = 4

// Serve implements transport.Handler.
func (s *Service) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	if q.Prog != wire.CallbackProgram {
		return transport.ProgUnavail
	}
	if q.Vers != wire.CallbackVersion && q.Vers != specVersion {
		q.Low, q.High = wire.CallbackVersion, wire.CallbackVersion
		return transport.ProgMismatch
	}
	switch q.Proc {
	case wire.ProcCBNull:
		if q.Args.End() != nil {
			return transport.GarbageArgs
		}
		return transport.Success
	case wire.ProcCBCompound:
		var c wire.CBCompound
		c.ParseArgs(q.Args)
		if q.Args.End() != nil {
			return transport.GarbageArgs
		}
		s.compound(&c, q.Reply)
		return transport.Success
	}
	return transport.ProcUnavail
}

// compound carries out a CB_COMPOUND, and writes its results.
func (s *Service) compound(c *wire.CBCompound, w *xdr.Writer) {
	if c.Minor < 1 || c.Minor > 2 {
		c.Status = wire.ErrMinorVersMismatch
		c.AppendRes(w)
		return
	}
	if len(c.Ops) == 0 {
		c.AppendRes(w)
		return
	}
	seq, ok := c.Ops[0].(*wire.CBSequence)
	if !ok {
		c.Done, c.Status = 1, wire.ErrOpNotInSession
		if !c.Ops[0].Op().Defined(c.Minor) {
			c.Status = wire.ErrOpIllegal
		}
		c.AppendRes(w)
		return
	}
	sl, replay, st := s.begin(c, seq)
	switch {
	case st == wire.ErrMinorVersMismatch:
		c.Status = st
		c.AppendRes(w)
		return
	case st != wire.OK:
		c.Done, c.Status = 1, st
		c.AppendRes(w)
		return
	case replay != nil:
		w.Fixed(replay)
		return
	}
	highest := s.highest()
	seq.ResSession, seq.ResSequenceID, seq.ResSlot = seq.Session, seq.SequenceID, seq.Slot
	seq.ResHighestSlot, seq.TargetHighestSlot = highest, highest
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	c.Done = 1
	for _, o := range c.Ops[1:] {
		c.Done++
		if c.Status = carryOut(client, o, c.Minor); c.Status != wire.OK {
			break
		}
	}
	from := len(w.Bytes())
	c.AppendRes(w)
	s.end(sl, bytes.Clone(w.Bytes()[from:]))
}

// highest is the highest slot of the back channel.
func (s *Service) highest() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint32(max(1, len(s.slots)) - 1)
}

// carryOut carries out one operation behind CB_SEQUENCE.
func carryOut(c Client, op wire.CBOperation, minor uint32) wire.Status {
	if c == nil {
		c = nobody{}
	}
	switch o := op.(type) {
	case *wire.CBRecall:
		return c.Recall(o.Handle, o.Stateid, o.Truncate)
	case *wire.CBGetAttr:
		a, st := c.GetAttr(o.Handle, o.Want)
		o.Attrs = a
		return st
	case *wire.CBRecallAny:
		return c.RecallAny(o.Keep, o.Types)
	case *wire.CBRecallSlot:
		return c.RecallSlot(o.Target)
	case *wire.CBNotifyLock:
		return c.NotifyLock(o.Handle, o.Owner)
	case *wire.CBOffload:
		return c.Offload(o)
	case *wire.CBSequence:
		return wire.ErrSequencePos
	}
	switch {
	case !op.Op().Defined(minor):
		return wire.ErrOpIllegal
	case op.Op() == wire.OpCBLayoutRecall:
		return wire.ErrNoMatchingLayout
	}
	return nfsclient.ErrNotSupp
}

// nobody is a Client that has nothing.
type nobody struct{}

func (nobody) Recall(nfsclient.Handle, wire.Stateid, bool) wire.Status { return wire.ErrBadStateid }
func (nobody) GetAttr(nfsclient.Handle, wire.Bitmap) (wire.Attrs, wire.Status) {
	return wire.Attrs{}, nfsclient.ErrBadHandle
}
func (nobody) RecallAny(uint32, wire.Bitmap) wire.Status           { return wire.OK }
func (nobody) RecallSlot(uint32) wire.Status                       { return wire.OK }
func (nobody) NotifyLock(nfsclient.Handle, wire.Owner) wire.Status { return wire.OK }
func (nobody) Offload(*wire.CBOffload) wire.Status                 { return wire.ErrBadStateid }
