package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Direction distinguishes calls from replies (the draft, section 5.2); it is msg_type of RFC 5531.
type Direction uint32

const (
	DirCall  Direction = 0
	DirReply Direction = 1
)

func parseDirection(r *xdr.Reader) Direction {
	d := Direction(r.Uint32())
	if d > DirReply {
		r.Fail("message direction %d", d)
	}
	return d
}

// Lengths of a header of Msg whose lists are empty.
const (
	EmptyLen1 = FixedLen + 12
	EmptyLen2 = FixedLen + 8 + 12
)

// EmptyLen is the one of a version.
func EmptyLen(version uint32) int {
	if version == Version2 {
		return EmptyLen2
	}
	return EmptyLen1
}

// Msg is RDMA_MSG and RDMA_NOMSG (RFC 8166 section 4), and RDMA2_MSG and RDMA2_NOMSG with rpcrdma2_chunk_lists (the
// draft, section 7.2). The lists are encoded alike.
type Msg struct {
	Header
	// Direction and InvHandle are of version 2. InvHandle is, in a call, the one handle that the responder may
	// invalidate, or zero (section 7.2.3).
	Direction Direction
	InvHandle uint32
	Lists     Lists
}

func (m *Msg) Append(w *xdr.Writer) {
	m.Header.append(w)
	if m.Version == Version2 {
		w.Uint32(uint32(m.Direction))
		w.Uint32(m.InvHandle)
	}
	m.Lists.append(w)
}

// Parse reuses the memory of m's lists.
func (m *Msg) Parse(b []byte) (int, error) {
	r := m.body(b)
	m.Direction, m.InvHandle = DirCall, 0
	if m.Version == Version2 {
		m.Direction = parseDirection(&r)
		m.InvHandle = r.Uint32()
	}
	return m.parseLists(&r)
}

func (m *Msg) parseLists(r *xdr.Reader) (int, error) {
	bound := m.Lists.parse(r)
	if r.Err() == nil && m.Proc == ProcNoMsg && m.Lists.Empty() {
		r.Fail("no chunk holds the message") // section 4.5.2
	}
	n, err := m.parsed(r, m.Direction)
	if e, _ := err.(*ParseError); e != nil && e.Answer != 0 && m.Version == Version2 && bound.code != 0 {
		e.Answer, e.Fault.Max = bound.code, bound.max
	}
	return n, err
}

// Invalidatable is the handle that the responder of a call of version 2 may invalidate, or zero. A requester that
// names one that its header does not have has erred; nothing is invalidated then.
func (m *Msg) Invalidatable() uint32 {
	if m.InvHandle == 0 || !m.Lists.has(m.InvHandle) {
		return 0
	}
	return m.InvHandle
}

// ReturnedLen is the length of the header of a reply that returns the chunks of the call m.
func (m *Msg) ReturnedLen() int {
	n := EmptyLen(m.Version)
	for _, c := range m.Lists.Write {
		n += WriteChunkLen(len(c))
	}
	if m.Lists.Reply != nil {
		n += ReplyChunkLen(len(m.Lists.Reply))
	}
	return n
}
