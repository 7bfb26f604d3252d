package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// rpcrdma2_connprop, the body of RDMA2_CONNPROP (the draft, section 6.3.1).

func (h *Header) appendConnProp(w *xdr.Writer) {
	h.Props.append(w)
	h.NoChange.append(w)
}

func (h *Header) parseConnProp(r *xdr.Reader) {
	h.Props.parse(r)
	h.NoChange = parsePropSubset(r)
}
