package udp

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

const (
	// CRCSize is the invariant CRC's, which ends every packet.
	CRCSize = 4
	// bthSize is the least packet, without the CRC.
	bthSize = 12
	// variant is the byte of the base transport header that routers may
	// change.
	variant = 4

	lrhSize = 8 // of eight bytes FF in place of the local routing header
	udpSize = 8
	ip4Size = 20
	ip6Size = 40

	idAt = 4 // in the IPv4 header; the flags follow
)

// pseudo is the beginning of what the CRC covers, with FF for what may change
// under way: local routing header, IP header, UDP header and, filled in for
// each packet, the base transport header.
type pseudo struct {
	b [lrhSize + ip6Size + udpSize + bthSize]byte
	n int // without the base transport header
	// Where the lengths are to be filled in.
	ipLen, udpLen int
	// ipLenAdd is what the IP length counts beside the UDP packet.
	ipLenAdd int
}

// fill makes p for packets between two addresses of one family, with
// identification 0.
func (p *pseudo) fill(src, dst netip.AddrPort) {
	for i := range p.b {
		p.b[i] = 0xff
	}
	ip := p.b[lrhSize:]
	var udp []byte
	if src.Addr().Is4() {
		p.ipLen, p.ipLenAdd, p.n = lrhSize+2, ip4Size, lrhSize+ip4Size+udpSize
		ip[0] = 0x45
		copy(ip[idAt:], []byte{0, 0, 0x40, 0}) // do not fragment
		ip[9] = 17
		s, d := src.Addr().As4(), dst.Addr().As4()
		copy(ip[12:], s[:])
		copy(ip[16:], d[:])
		udp = ip[ip4Size:]
	} else {
		p.ipLen, p.ipLenAdd, p.n = lrhSize+4, 0, lrhSize+ip6Size+udpSize
		ip[0] = 0x6f
		ip[6] = 17
		s, d := src.Addr().As16(), dst.Addr().As16()
		copy(ip[8:], s[:])
		copy(ip[24:], d[:])
		udp = ip[ip6Size:]
	}
	binary.BigEndian.PutUint16(udp[0:], src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	p.udpLen = p.n - udpSize + 4
}

// identify fills in an IPv4 identification; IPv6 has none.
func (p *pseudo) identify(id uint16) {
	if p.ipLenAdd > 0 {
		binary.BigEndian.PutUint16(p.b[lrhSize+idAt:], id)
	}
}

// begin is the CRC of p and the base transport header of a packet whose UDP
// payload, the CRC included, has n bytes.
func (p *pseudo) begin(n int, bth []byte) uint32 {
	binary.BigEndian.PutUint16(p.b[p.ipLen:], uint16(p.ipLenAdd+udpSize+n))
	binary.BigEndian.PutUint16(p.b[p.udpLen:], uint16(udpSize+n))
	copy(p.b[p.n:p.n+bthSize], bth)
	p.b[p.n+variant] = 0xff
	return crc32.ChecksumIEEE(p.b[:p.n+bthSize])
}

// The CRC of a message is linear in its bytes: two messages that differ in a
// word W with k bytes behind it have CRCs that differ in W·x^(8k), modulo the
// polynomial, when both are read with the lowest power in the highest bit. So
// the word can be had back from the difference, by the inverse of that power.

// poly is the polynomial, reflected; one is 1.
const (
	poly = 0xedb88320
	one  = 1 << 31
)

// inverses holds x^(-32k) for all lengths in words.
var inverses = func() (t [(ip4Size + udpSize + MaxPacket) / 4]uint32) {
	t[0] = one
	for i := 1; i < len(t); i++ {
		v := t[i-1]
		for range 32 {
			// Divide by x: the polynomial has a constant term, so it can be
			// added to make the division even.
			if v&one != 0 {
				v = (v^poly)<<1 | 1
			} else {
				v <<= 1
			}
		}
		t[i] = v
	}
	return t
}()

// multiply is the product of two polynomials.
func multiply(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		p ^= b & -(a >> 31)
		b = b>>1 ^ poly&-(b&1)
	}
	return p
}

// solve finds the identification with which an IPv4 packet has the right CRC:
// diff is the difference between the one that it has and the one that it would
// have with identification 0; n is the length of its UDP payload with the CRC.
// Without one, ok is false.
func solve(diff uint32, n int) (id uint16, ok bool) {
	// Behind the word of identification and flags stand the rest of the IP
	// header, the UDP header, and the payload without the CRC.
	behind := ip4Size - idAt - 4 + udpSize + n - CRCSize
	w := multiply(inverses[behind/4+1], diff)
	return bits.ReverseBytes16(uint16(w)), w>>16 == 0
}
