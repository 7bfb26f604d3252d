package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// rpcrdma2_chunk_lists, the body of RDMA2_MSG and RDMA2_NOMSG (the draft,
// section 7.2). The three lists are encoded as in version 1.

// EmptyHeaderLen2 is the length of a header of Msg with empty lists.
const EmptyHeaderLen2 = FixedHeaderLen + 8 + 12

func (h *Header) appendChunks2(w *xdr.Writer) {
	w.Uint32(uint32(h.Direction))
	w.Uint32(h.InvHandle)
	h.Lists.append(w)
}

func (h *Header) parseChunks2(r *xdr.Reader) {
	h.Direction = parseDirection(r)
	h.InvHandle = r.Uint32()
	h.Lists.parse(r)
	if h.Proc == NoMsg && len(h.Lists.Read) == 0 && len(h.Lists.Write) == 0 && h.Lists.Reply == nil {
		r.Fail("no chunk holds the message")
	}
}

// invalidatable is the handle that the responder of a call may invalidate, or
// zero. A requester that names one that its header does not have has erred;
// nothing is invalidated then.
func (h *Header) invalidatable() uint32 {
	if h.InvHandle == 0 || !h.Lists.names(h.InvHandle) {
		return 0
	}
	return h.InvHandle
}

// names tells whether a segment of l has the handle.
func (l *Lists) names(handle uint32) bool {
	for _, s := range l.Read {
		if s.Handle == handle {
			return true
		}
	}
	for _, c := range l.Write {
		if c.names(handle) {
			return true
		}
	}
	return l.Reply.names(handle)
}

func (c Chunk) names(handle uint32) bool {
	for _, s := range c {
		if s.Handle == handle {
			return true
		}
	}
	return false
}
