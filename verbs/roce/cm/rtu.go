package cm

// RTU confirms to the passive side that its REP has arrived (IBTA 12.6.9).
type RTU struct {
	CommID, RemoteID uint32
}

// Append appends the RTU as a datagram of transaction tid.
func (m *RTU) Append(b []byte, tid uint64) []byte {
	b, p := appendMAD(b, Header{TID: tid, Attr: AttrRTU})
	be.PutUint32(p[0:], m.CommID)
	be.PutUint32(p[4:], m.RemoteID)
	return b
}

// ParseRTU reads an RTU.
func ParseRTU(b []byte) (RTU, error) {
	p, err := body(b, AttrRTU)
	if err != nil {
		return RTU{}, err
	}
	return RTU{CommID: be.Uint32(p[0:]), RemoteID: be.Uint32(p[4:])}, nil
}
