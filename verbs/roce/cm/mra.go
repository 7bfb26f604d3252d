package cm

// What an MRA or a REJ answers.
const (
	OfREQ   uint8 = 0
	OfREP   uint8 = 1
	OfOther uint8 = 2
)

// MRA says that a message has arrived and that the answer takes time
// (IBTA 12.6.6).
type MRA struct {
	CommID, RemoteID uint32
	// Of is the message that arrived.
	Of uint8
	// Timeout is the exponent of 4.096 µs for which the peer should wait.
	Timeout uint8
}

// Append appends the MRA as a datagram of transaction tid.
func (m *MRA) Append(b []byte, tid uint64) []byte {
	b, p := appendMAD(b, Header{TID: tid, Attr: AttrMRA})
	be.PutUint32(p[0:], m.CommID)
	be.PutUint32(p[4:], m.RemoteID)
	p[8] = m.Of << 6
	p[9] = m.Timeout << 3
	return b
}

// ParseMRA reads an MRA.
func ParseMRA(b []byte) (MRA, error) {
	p, err := body(b, AttrMRA)
	if err != nil {
		return MRA{}, err
	}
	return MRA{CommID: be.Uint32(p[0:]), RemoteID: be.Uint32(p[4:]), Of: p[8] >> 6, Timeout: p[9] >> 3}, nil
}
