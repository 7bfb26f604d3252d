package cm

import "fmt"

const (
	rejPrivateAt = 84
	// REJPrivate is the room for private data in a REJ.
	REJPrivate = dataSize - rejPrivateAt
	maxARI     = 72
)

// REJ refuses or gives up (IBTA 12.6.7).
type REJ struct {
	// CommID is zero when the sender has made no connection of the REQ.
	CommID, RemoteID uint32
	// Of is the message that is refused.
	Of     uint8
	Reason Reason
	// Info is the additional information that some reasons have, at most 72
	// bytes; borrowed from the datagram by ParseREJ, as Private is.
	Info    []byte
	Private []byte
}

// Append appends the REJ as a datagram of transaction tid.
func (m *REJ) Append(b []byte, tid uint64) []byte {
	b, p := appendMAD(b, Header{TID: tid, Attr: AttrREJ})
	be.PutUint32(p[0:], m.CommID)
	be.PutUint32(p[4:], m.RemoteID)
	p[8] = m.Of << 6
	p[9] = byte(len(m.Info)) << 1
	be.PutUint16(p[10:], uint16(m.Reason))
	putPrivate(p[12:rejPrivateAt], m.Info)
	putPrivate(p[rejPrivateAt:], m.Private)
	return b
}

// ParseREJ reads a REJ.
func ParseREJ(b []byte) (REJ, error) {
	p, err := body(b, AttrREJ)
	if err != nil {
		return REJ{}, err
	}
	n := int(p[9] >> 1)
	if n > maxARI {
		return REJ{}, fmt.Errorf("%w: REJ with %d bytes of additional information", errMAD, n)
	}
	return REJ{
		CommID:   be.Uint32(p[0:]),
		RemoteID: be.Uint32(p[4:]),
		Of:       p[8] >> 6,
		Reason:   Reason(be.Uint16(p[10:])),
		Info:     p[12 : 12+n],
		Private:  p[rejPrivateAt:],
	}, nil
}
