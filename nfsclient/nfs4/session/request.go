package session

import (
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Lengths of what surrounds a compound (RFC 5531): the call up to its credential, and the
// reply up to its results with a verifier of AUTH_NONE.
const (
	callHeader  = 24
	replyHeader = 24
)

// request is a Call as it is sent. Its SEQUENCE is fixed before the first transmission.
type request struct {
	seq    wire.Sequence
	comp   wire.Compound
	call   transport.Call
	size   xdr.Writer
	buf    []byte
	status uint32
}

var requests = sync.Pool{New: func() any {
	q := new(request)
	q.call.Args = q.comp.AppendArgs
	q.call.Result = q.result
	q.call.Status = &q.status
	return q
}}

// newRequest makes the request of c.
func (s *Session) newRequest(c *Call) *request {
	q := requests.Get().(*request)
	q.comp.Minor = s.cf.Minor
	q.comp.Ops = append(append(q.comp.Ops[:0], &q.seq), c.Ops...)
	q.call.Prog, q.call.Vers, q.call.Proc = wire.Program, wire.Version, wire.ProcCompound
	q.call.CountAs = uint32(wire.Principal(q.comp.Ops))
	q.call.Cred, q.call.Send, q.call.Recv = c.Cred, c.Send, c.Recv
	if c.Cred == nil {
		q.call.Cred = s.cf.Machine
	}
	q.seq = wire.Sequence{CacheThis: c.Cache}
	return q
}

func (q *request) free() {
	clear(q.comp.Ops)
	q.call.Cred, q.call.Send, q.call.Recv = nil, nil, nil
	q.size.Reset(nil, nil)
	requests.Put(q)
}

// result decodes a reply.
func (q *request) result(r *xdr.Reader) error {
	q.comp.ParseRes(r)
	q.status = uint32(q.comp.Status)
	return r.End()
}

// fix sets what is the same in each transmission.
func (q *request) fix(g grant) {
	q.seq.Session, q.seq.SequenceID, q.seq.Slot, q.seq.HighestSlot = g.inc.id, g.seq, uint32(g.slot), g.highest
	q.call.Resent = false
}

// fit checks the request against what the server has granted, and bounds its reply by
// that (RFC 8267 section 6.2). Data counts, whether it is placed directly or not.
func (s *Session) fit(q *request, f *wire.Channel) error {
	if n, limit := len(q.comp.Ops), int(f.MaxOps); n > limit {
		return s.tooLarge("operations, SEQUENCE included", n, limit)
	}
	w := &q.size
	w.Reset(q.buf, q.call.Send)
	q.call.Cred.Append(w, 0)
	q.comp.AppendArgs(w)
	q.buf = w.Bytes()[:0]
	if n, limit := int64(callHeader+w.Len()), int64(f.MaxRequest); n > limit {
		return s.tooLarge("bytes", int(n), int(limit))
	}
	data := 0
	for _, p := range q.call.Recv {
		data += p.Len() + xdr.Pad(p.Len())
	}
	left := int64(f.MaxResponse) - replyHeader - int64(data)
	if least := int64(12 + q.seq.ReplyMax()); left < least {
		return s.tooLarge("bytes of data in its reply", data, int(int64(f.MaxResponse)-replyHeader-least))
	}
	q.call.ReplyMax = int(min(int64(q.comp.ReplyMax()), left))
	return nil
}

// ours reports whether the results of SEQUENCE are those of this request.
func (q *request) ours() bool {
	return q.seq.ResSession == q.seq.Session && q.seq.ResSlot == q.seq.Slot && q.seq.ResSequenceID == q.seq.SequenceID
}
