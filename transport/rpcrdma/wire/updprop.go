package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// UpdProp is RDMA2_UPDPROP (the draft, section 6.3.4): properties of the sender that have changed.
type UpdProp struct {
	Header
	Props PropSet
}

func (m *UpdProp) Append(w *xdr.Writer) {
	m.Header.append(w)
	m.Props.append(w)
}

func (m *UpdProp) Parse(b []byte) (int, error) {
	r := m.body(b)
	m.Props.parse(&r)
	return m.ended(&r, DirCall)
}
