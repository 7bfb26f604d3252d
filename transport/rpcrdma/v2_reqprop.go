package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// rpcrdma2_reqprop, the body of RDMA2_REQPROP (the draft, section 6.3.2).

func (h *Header) appendReqProp(w *xdr.Writer) { h.Props.append(w) }

func (h *Header) parseReqProp(r *xdr.Reader) { h.Props.parse(r) }
