package cm

const (
	repPrivateAt = 36
	// REPPrivate is the room for private data in a REP.
	REPPrivate = dataSize - repPrivateAt
)

// REP grants what a REQ asked for (IBTA 12.6.8).
type REP struct {
	CommID, RemoteID                   uint32
	QPN, PSN                           uint32
	ResponderResources, InitiatorDepth uint8
	// AckDelay is the exponent of 4.096 µs in which the sender's queue pair
	// answers.
	AckDelay uint8
	RNRRetry uint8
	CAGUID   uint64
	// Private is borrowed from the datagram by ParseREP.
	Private []byte
}

// Append appends the REP as a datagram of transaction tid.
func (m *REP) Append(b []byte, tid uint64) []byte {
	b, p := appendMAD(b, Header{TID: tid, Attr: AttrREP})
	be.PutUint32(p[0:], m.CommID)
	be.PutUint32(p[4:], m.RemoteID)
	putUint24(p[12:], m.QPN)
	putUint24(p[20:], m.PSN)
	p[24] = m.ResponderResources
	p[25] = m.InitiatorDepth
	p[26] = m.AckDelay << 3
	p[27] = m.RNRRetry << 5
	be.PutUint64(p[28:], m.CAGUID)
	putPrivate(p[repPrivateAt:], m.Private)
	return b
}

// ParseREP reads a REP.
func ParseREP(b []byte) (REP, error) {
	p, err := body(b, AttrREP)
	if err != nil {
		return REP{}, err
	}
	return REP{
		CommID:             be.Uint32(p[0:]),
		RemoteID:           be.Uint32(p[4:]),
		QPN:                uint24(p[12:]),
		PSN:                uint24(p[20:]),
		ResponderResources: p[24],
		InitiatorDepth:     p[25],
		AckDelay:           p[26] >> 3,
		RNRRetry:           p[27] >> 5,
		CAGUID:             be.Uint64(p[28:]),
		Private:            p[repPrivateAt:],
	}, nil
}
