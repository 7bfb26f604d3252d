package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// rpcrdma2_resprop, the body of RDMA2_RESPROP (the draft, section 6.3.3).

func (h *Header) appendResProp(w *xdr.Writer) {
	h.Done.append(w)
	h.Rejected.append(w)
	h.Props.append(w)
}

func (h *Header) parseResProp(r *xdr.Reader) {
	h.Done = parsePropSubset(r)
	h.Rejected = parsePropSubset(r)
	h.Props.parse(r)
}
