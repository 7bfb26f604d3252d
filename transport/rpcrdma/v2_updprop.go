package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// rpcrdma2_updprop, the body of RDMA2_UPDPROP (the draft, section 6.3.4).

func (h *Header) appendUpdProp(w *xdr.Writer) { h.Props.append(w) }

func (h *Header) parseUpdProp(r *xdr.Reader) { h.Props.parse(r) }
