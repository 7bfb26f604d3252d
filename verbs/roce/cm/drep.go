package cm

// DREP confirms a DREQ (IBTA 12.6.11).
type DREP struct {
	CommID, RemoteID uint32
}

// Append appends the DREP as a datagram of transaction tid.
func (m *DREP) Append(b []byte, tid uint64) []byte {
	b, p := appendMAD(b, Header{TID: tid, Attr: AttrDREP})
	be.PutUint32(p[0:], m.CommID)
	be.PutUint32(p[4:], m.RemoteID)
	return b
}

// ParseDREP reads a DREP.
func ParseDREP(b []byte) (DREP, error) {
	p, err := body(b, AttrDREP)
	if err != nil {
		return DREP{}, err
	}
	return DREP{CommID: be.Uint32(p[0:]), RemoteID: be.Uint32(p[4:])}, nil
}
