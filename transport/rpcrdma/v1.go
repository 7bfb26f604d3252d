package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// Version1 is the rdma_vers of RFC 8166.
const Version1 = 1

// EmptyHeaderLen is the length of a version 1 header with empty lists.
const EmptyHeaderLen = 28

// appendV1 is RFC 8166 section 4, with what of RFC 5666 section 4.3 it dropped.
func (h *Header) appendV1(w *xdr.Writer) {
	switch h.Proc {
	case MsgP:
		w.Uint32(h.Align)
		w.Uint32(h.Threshold)
		h.Lists.append(w)
	case Msg, NoMsg:
		h.Lists.append(w)
	case Error:
		w.Uint32(uint32(ErrChunk)) // what is not about versions is about chunks
	}
}

func (h *Header) parseV1(r *xdr.Reader) *HeaderError {
	switch h.Proc {
	case MsgP:
		h.Align, h.Threshold = r.Uint32(), r.Uint32()
		h.Lists.parse(r)
	case Msg, NoMsg:
		h.Lists.parse(r)
	case Error:
		h.Err = ErrCode(r.Uint32())
		switch {
		case h.Err == ErrVers:
			h.Low, h.High = r.Uint32(), r.Uint32()
		case h.Err != ErrChunk && r.Err() == nil:
			return refuse(0, "unknown error code %d", h.Err)
		}
	case Done:
	default:
		return refuse(ErrChunk, "unknown procedure %d", h.Proc)
	}
	l := &h.Lists
	if r.Err() == nil && h.Proc == NoMsg && len(l.Read) == 0 && len(l.Write) == 0 && l.Reply == nil {
		return refuse(ErrChunk, "no chunk holds the message") // section 4.5.2
	}
	return nil
}
