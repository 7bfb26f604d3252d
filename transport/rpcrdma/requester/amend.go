package requester

import (
	"errors"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// amend reports whether the call in s, which got err, is to be sent again under
// the same XID, and records in s how: the draft, section 7.2.4, says what a
// requester can do about which error. What the responder will never take is
// remembered for all calls. Each refusal must forbid something that the call
// has.
func (r *Requester) amend(s *slot, err error) bool {
	var re *ReplyError
	if !errors.As(err, &re) || s.terms.Version != wire.Version2 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if re.Code == wire.ErrVers {
		return r.conn.Terms().Version == wire.Version1
	}
	before, d, f := s.terms.Demands, &s.demands, re.Fault
	switch re.Code {
	case wire.ErrReadChunks:
		r.learnt.NoReadChunks = r.learnt.NoReadChunks || f.Max == 0
		if s.plan.Call != plan.CallReadChunk {
			return false // a call with a Position-Zero chunk MUST end
		}
		d.NoReadChunks = true
	case wire.ErrWriteChunks:
		d.NoWriteChunks = s.plan.Reply == plan.ReplyWriteList
	case wire.ErrSegments:
		d.MaxSegments = int(min(f.Max, plan.MaxSegments))
		r.learnt = r.learnt.With(plan.Demands{MaxSegments: d.MaxSegments})
	case wire.ErrWriteResource:
		i := int(f.Index) - 1
		if s.plan.Reply != plan.ReplyWriteList || f.Needed == 0 || i < 0 || i >= s.plan.Written {
			return false
		}
		need := s.shape.ReplyHead
		for k, it := range s.shape.Recv {
			if k == i {
				it.Len = max(it.Len, int(f.Needed))
			}
			need += it.Padded()
		}
		d.MinReply = need + xdr.Pad(need)
	case wire.ErrReplyResource:
		if int(f.Needed) > s.plan.ReplyLen {
			d.MinReply = int(f.Needed)
		}
	default:
		return false
	}
	if d.MinReply > r.maxPayload+MaxHead {
		return false
	}
	if before.With(*d) == before {
		return false
	}
	r.count.Resends.Add(1)
	return true
}
