package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// ResProp is RDMA2_RESPROP (the draft, section 6.3.3), the response to a ReqProp: which of the properties asked for are
// in force now, which are refused, and the values of those that became something else.
type ResProp struct {
	Header
	Done, Rejected PropSubset
	Props          PropSet
}

func (m *ResProp) Append(w *xdr.Writer) {
	m.Header.append(w)
	m.Done.append(w)
	m.Rejected.append(w)
	m.Props.append(w)
}

func (m *ResProp) Parse(b []byte) (int, error) {
	r := m.body(b)
	m.Done = parsePropSubset(&r)
	m.Rejected = parsePropSubset(&r)
	m.Props.parse(&r)
	return m.ended(&r, DirReply)
}
