package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// PadLen is what MsgP's header has more than Msg's.
const PadLen = 8

// MsgP is RDMA_MSGP (RFC 5666 sections 3.9 and 4.3; RFC 8166 dropped it): a Msg of version 1 that says how the RPC
// message after it is padded.
type MsgP struct {
	Msg
	Align, Threshold uint32
}

func (m *MsgP) Append(w *xdr.Writer) {
	m.Header.append(w)
	w.Uint32(m.Align)
	w.Uint32(m.Threshold)
	m.Lists.append(w)
}

func (m *MsgP) Parse(b []byte) (int, error) {
	r := m.body(b)
	m.Direction, m.InvHandle = DirCall, 0
	m.Align, m.Threshold = r.Uint32(), r.Uint32()
	return m.parseLists(&r)
}
