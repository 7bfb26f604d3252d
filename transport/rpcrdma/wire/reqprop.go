package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// ReqProp is RDMA2_REQPROP (the draft, section 6.3.2): properties that the receiver is asked to have.
type ReqProp struct {
	Header
	Props PropSet
}

func (m *ReqProp) Append(w *xdr.Writer) {
	m.Header.append(w)
	m.Props.append(w)
}

func (m *ReqProp) Parse(b []byte) (int, error) {
	r := m.body(b)
	m.Props.parse(&r)
	return m.ended(&r, DirCall)
}
