package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// rpcrdma2_optional, the body of RDMA2_OPTIONAL (the draft, section 5.1).

func (h *Header) appendOptional(w *xdr.Writer) {
	w.Uint32(uint32(h.Direction))
	w.Uint32(h.OptType)
	w.Opaque(h.OptInfo)
}

func (h *Header) parseOptional(r *xdr.Reader) {
	h.Direction = parseDirection(r)
	h.OptType = r.Uint32()
	h.OptInfo = r.Opaque(r.Remaining())
}
