package session

import (
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// park ends a call of which nobody knows whether the server has carried it out, or may yet. Its
// slot is of no use until runClean has found out: another compound under the same sequence ID would
// be answered with the reply of the first, and one under the next is misordered if that never came.
func (s *Session) park(g grant, cached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended(g)
	if s.closed || g.inc != s.cur || g.inc.dead {
		return
	}
	s.tasks.Go(func() { s.runClean(g, cached) })
}

// runClean sends SEQUENCE alone on a parked slot, as its last request was sent, until the server
// has answered: with the reply of that request, with one to SEQUENCE if that never came, or with an
// error that tells which of both.
func (s *Session) runClean(g grant, cached bool) {
	ctx := g.inc.ended
	q := s.newRequest(&Call{Cache: cached})
	defer q.free()
	q.fix(g)
	var st wire.Status
	q.call.Result = func(r *xdr.Reader) (err error) {
		st, err = onlySequence(r, &q.seq)
		return err
	}
	defer func() { q.call.Result = q.result }()
	// A reply that was kept may be as long as that.
	q.call.ReplyMax = min(int(g.inc.fore.MaxResponseCached), s.cf.Cached) + q.comp.ReplyMax()
	for pause, tries := firstPause, 0; ; pause = min(2*pause, lastPause) {
		sent := s.cf.Clock.Now()
		err := s.cf.Caller.Call(ctx, &q.call)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: slot %d was given up, and cannot be used again yet: %v", s.cf.Host, g.slot, err))
		} else {
			switch v := verdicts[st]; {
			case v == executed && q.ours(), v == nextSeq:
				s.cleaned(g)
				return
			case v == pauseSame:
			case v == lowerSame && q.seq.HighestSlot != q.seq.Slot:
				q.seq.HighestSlot = q.seq.Slot
			case v == bindSame && tries < maxAnew:
				_ = s.bind(ctx, g.inc, tries, sent) // seen by the next try
			default:
				s.mu.Lock()
				s.lostSession(g.inc, v != lost, st)
				s.mu.Unlock()
				return
			}
			tries++
		}
		if s.pause(ctx, pause) != nil {
			return
		}
	}
}

// cleaned gives a parked slot back, whose sequence ID is used by now in any case.
func (s *Session) cleaned(g grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.inc.slots.give(g.slot, true)
	s.dispatch()
}

// onlySequence decodes the result of SEQUENCE at the beginning of a reply, whatever follows.
func onlySequence(r *xdr.Reader, q *wire.Sequence) (wire.Status, error) {
	whole := wire.Status(r.Uint32())
	r.Opaque(wire.MaxTag)
	n := r.Count(wire.MaxOps)
	if n == 0 {
		return whole, r.Err()
	}
	if o := wire.Op(r.Uint32()); r.Err() == nil && o != wire.OpSequence {
		r.Fail("the first result is of %v instead of SEQUENCE", o)
	}
	st := wire.Status(r.Uint32())
	q.ParseRes(r, st)
	return st, r.Err()
}
