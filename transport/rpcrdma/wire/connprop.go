package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// ConnProp is RDMA2_CONNPROP (the draft, section 6.3.1): the sender's properties, and which of them never change.
type ConnProp struct {
	Header
	Props    PropSet
	NoChange PropSubset
}

func (m *ConnProp) Append(w *xdr.Writer) {
	m.Header.append(w)
	m.Props.append(w)
	m.NoChange.append(w)
}

func (m *ConnProp) Parse(b []byte) (int, error) {
	r := m.body(b)
	m.Props.parse(&r)
	m.NoChange = parsePropSubset(&r)
	return m.ended(&r, DirCall)
}

// ended is parsed for messages that no RPC message follows (the draft, section 7.2.1).
func (h *Header) ended(r *xdr.Reader, dir Direction) (int, error) {
	if r.Err() == nil {
		_ = r.End() // which fails r
	}
	return h.parsed(r, dir)
}
