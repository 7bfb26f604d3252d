package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Optional is RDMA2_OPTIONAL (the draft, section 5.1).
type Optional struct {
	Header
	Direction Direction
	Type      uint32
	Info      []byte // borrowed from the message
}

func (m *Optional) Append(w *xdr.Writer) {
	m.Header.append(w)
	w.Uint32(uint32(m.Direction))
	w.Uint32(m.Type)
	w.Opaque(m.Info)
}

func (m *Optional) Parse(b []byte) (int, error) {
	r := m.body(b)
	m.Direction = parseDirection(&r)
	m.Type = r.Uint32()
	m.Info = r.Opaque(r.Remaining())
	return m.parsed(&r, m.Direction)
}
