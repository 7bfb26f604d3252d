package cm

// DREQ ends a connection (IBTA 12.6.10).
type DREQ struct {
	CommID, RemoteID uint32
	// RemoteQPN is the queue pair of the receiver.
	RemoteQPN uint32
}

// Append appends the DREQ as a datagram of transaction tid.
func (m *DREQ) Append(b []byte, tid uint64) []byte {
	b, p := appendMAD(b, Header{TID: tid, Attr: AttrDREQ})
	be.PutUint32(p[0:], m.CommID)
	be.PutUint32(p[4:], m.RemoteID)
	putUint24(p[8:], m.RemoteQPN)
	return b
}

// ParseDREQ reads a DREQ.
func ParseDREQ(b []byte) (DREQ, error) {
	p, err := body(b, AttrDREQ)
	if err != nil {
		return DREQ{}, err
	}
	return DREQ{CommID: be.Uint32(p[0:]), RemoteID: be.Uint32(p[4:]), RemoteQPN: uint24(p[8:])}, nil
}
