package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// Version2 is the rdma_vers of draft-cel-nfsv4-rpcrdma-version-two-05, which
// comments about version 2 cite as the draft.
const Version2 = 2

// DefaultInline2 is the inline threshold that senders assume in version 2, and
// the least that receivers support (the draft, section 3.3).
const DefaultInline2 = 4096

// rdma_proc of version 2 (the draft, section 7.2). Msg, NoMsg and Error have
// the values of version 1; MsgP and Done are gone.
const (
	Optional Proc = 5
	ConnProp Proc = 6
	ReqProp  Proc = 7
	ResProp  Proc = 8
	UpdProp  Proc = 9
)

// Direction tells calls from replies (the draft, section 5.2); it is msg_type
// of RFC 5531.
type Direction uint32

const (
	DirCall  Direction = 0
	DirReply Direction = 1
)

func parseDirection(r *xdr.Reader) Direction {
	d := Direction(r.Uint32())
	if d > DirReply {
		r.Fail("message direction %d", d)
	}
	return d
}

// V2 is what headers of version 2 have besides those of version 1.
type V2 struct {
	// Direction belongs to Msg, NoMsg and Optional. That of an Error is always
	// DirReply (the draft, section 7.2.2).
	Direction Direction
	// InvHandle belongs to Msg and NoMsg: in a call, the one handle that the
	// responder may invalidate, or zero (section 7.2.3).
	InvHandle uint32
	// Fault belongs to Error.
	Fault Fault
	// OptType and OptInfo belong to Optional. OptInfo is borrowed from the
	// message.
	OptType uint32
	OptInfo []byte
	// Props is rdma_start of ConnProp, rdma_want of ReqProp, rdma_other of
	// ResProp, rdma_now of UpdProp. NoChange belongs to ConnProp, Done and
	// Rejected to ResProp.
	Props                    PropSet
	NoChange, Done, Rejected PropSubset
}

func (h *Header) appendV2(w *xdr.Writer) {
	switch h.Proc {
	case Msg, NoMsg:
		h.appendChunks2(w)
	case Error:
		h.appendError2(w)
	case Optional:
		h.appendOptional(w)
	case ConnProp:
		h.appendConnProp(w)
	case ReqProp:
		h.appendReqProp(w)
	case ResProp:
		h.appendResProp(w)
	case UpdProp:
		h.appendUpdProp(w)
	}
}

// parseV2 owes the sender no answer to a reply that is malformed: only requests
// are answered with errors (the draft, section 7.2.4).
func (h *Header) parseV2(r *xdr.Reader) *HeaderError {
	switch h.Proc {
	case Msg, NoMsg:
		h.parseChunks2(r)
	case Error:
		h.Direction = DirReply
		h.parseError2(r)
	case Optional:
		h.parseOptional(r)
	case ConnProp:
		h.parseConnProp(r)
	case ReqProp:
		h.parseReqProp(r)
	case ResProp:
		h.Direction = DirReply
		h.parseResProp(r)
	case UpdProp:
		h.parseUpdProp(r)
	default:
		return refuse(ErrInvalProc, "unknown procedure %d", h.Proc)
	}
	if r.Err() == nil && h.Proc != Msg && h.Proc != NoMsg && h.Proc != Optional {
		_ = r.End() // section 7.2.1: no payload follows
	}
	switch err := r.Err(); {
	case err == nil:
		return nil
	case h.Direction == DirReply:
		return refuse(0, "%v", err)
	case h.Lists.excess != 0:
		bad := refuse(h.Lists.excess, "%v", err)
		bad.Fault.Max = h.Lists.excessMax
		return bad
	default:
		return refuse(ErrBadXDR, "%v", err)
	}
}
