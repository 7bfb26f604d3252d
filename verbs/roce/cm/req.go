package cm

import (
	"fmt"
	"net/netip"
)

// portSpaceTCP makes a service ID of a TCP port (annex A11.5): the port of an
// NFS server, say, is service 0x0000_0000_0106_4e51.
const portSpaceTCP = 0x0106 << 16

const (
	reqPrivateAt = 140
	// REQPrivate is the room for private data in a REQ, past the addresses.
	REQPrivate = 92 - cmaSize
)

// noLID stands where a subnet has no local identifiers; a RoCE network has
// none.
const noLID = 0xffff

// REQ asks for a connection (IBTA 12.6.5).
type REQ struct {
	CommID    uint32
	ServiceID uint64
	CAGUID    uint64
	QPN, PSN  uint32
	// ResponderResources is how many RDMA Reads the sender accepts at a time,
	// InitiatorDepth how many it will issue.
	ResponderResources, InitiatorDepth uint8
	// RemoteTimeout and LocalTimeout are exponents of 4.096 µs: how long the
	// peer may take to answer, and how long the sender takes.
	RemoteTimeout, LocalTimeout uint8
	// Transport is the service type; 0 is reliable connected.
	Transport            uint8
	RetryCount, RNRRetry uint8
	PKey                 uint16
	// MTU is the code of the path's payload size, 1 for 256 to 5 for 4096.
	MTU          uint8
	MaxCMRetries uint8
	// LocalGID and RemoteGID are the ends of the path, as addresses.
	LocalGID, RemoteGID netip.Addr
	HopLimit            uint8
	// AckTimeout is the exponent of 4.096 µs after which the peer's queue pair
	// sends again.
	AckTimeout uint8
	// Addresses is the consumer's addressing (annex A11).
	Addresses CMA
	// Private is borrowed from the datagram by ParseREQ.
	Private []byte
}

// Append appends the REQ as a datagram of transaction tid.
func (m *REQ) Append(b []byte, tid uint64) []byte {
	b, p := appendMAD(b, Header{TID: tid, Attr: AttrREQ})
	be.PutUint32(p[0:], m.CommID)
	be.PutUint64(p[8:], m.ServiceID)
	be.PutUint64(p[16:], m.CAGUID)
	putUint24(p[32:], m.QPN)
	p[35] = m.ResponderResources
	p[39] = m.InitiatorDepth
	p[43] = m.RemoteTimeout<<3 | m.Transport&3<<1
	putUint24(p[44:], m.PSN)
	p[47] = m.LocalTimeout<<3 | m.RetryCount&7
	be.PutUint16(p[48:], m.PKey)
	p[50] = m.MTU<<4 | m.RNRRetry&7
	p[51] = m.MaxCMRetries << 4
	be.PutUint16(p[52:], noLID)
	be.PutUint16(p[54:], noLID)
	putAddr(p[56:], m.LocalGID)
	putAddr(p[72:], m.RemoteGID)
	p[93] = m.HopLimit
	p[95] = m.AckTimeout << 3
	m.Addresses.put(p[reqPrivateAt:])
	putPrivate(p[reqPrivateAt+cmaSize:], m.Private)
	return b
}

// ParseREQ reads a REQ. What it says of addresses is not yet believed.
func ParseREQ(b []byte) (REQ, error) {
	p, err := body(b, AttrREQ)
	if err != nil {
		return REQ{}, err
	}
	m := REQ{
		CommID:             be.Uint32(p[0:]),
		ServiceID:          be.Uint64(p[8:]),
		CAGUID:             be.Uint64(p[16:]),
		QPN:                uint24(p[32:]),
		ResponderResources: p[35],
		InitiatorDepth:     p[39],
		RemoteTimeout:      p[43] >> 3,
		Transport:          p[43] >> 1 & 3,
		PSN:                uint24(p[44:]),
		LocalTimeout:       p[47] >> 3,
		RetryCount:         p[47] & 7,
		PKey:               be.Uint16(p[48:]),
		MTU:                p[50] >> 4,
		RNRRetry:           p[50] & 7,
		MaxCMRetries:       p[51] >> 4,
		LocalGID:           gid(p[56:]),
		RemoteGID:          gid(p[72:]),
		HopLimit:           p[93],
		AckTimeout:         p[95] >> 3,
		Private:            p[reqPrivateAt+cmaSize:],
	}
	if m.Addresses, err = parseCMA(p[reqPrivateAt:]); err != nil {
		return m, fmt.Errorf("REQ: %w", err)
	}
	return m, nil
}
