package cm

import (
	"fmt"
	"net/netip"
)

// cmaSize is the length of the addressing header that begins a REQ's private
// data.
const cmaSize = 36

// CMA is the addressing of a consumer that uses IP addresses (annex A11.3). The
// destination's port is in the service ID.
type CMA struct {
	SrcPort  uint16
	Src, Dst netip.Addr
}

func (c *CMA) put(p []byte) {
	p[1] = 0x60
	src, dst := c.Src.As16(), c.Dst.As16()
	if c.Src.Is4() {
		// The four bytes stand last, after zeros: not a mapped address.
		p[1] = 0x40
		clear(src[:12])
		clear(dst[:12])
	}
	be.PutUint16(p[2:], c.SrcPort)
	copy(p[4:20], src[:])
	copy(p[20:36], dst[:])
}

// parseCMA reads the first cmaSize bytes of p.
func parseCMA(p []byte) (CMA, error) {
	c := CMA{SrcPort: be.Uint16(p[2:])}
	if p[0] != 0 {
		return c, fmt.Errorf("%w: addressing header version %#x", errMAD, p[0])
	}
	switch p[1] >> 4 {
	case 4:
		c.Src, c.Dst = netip.AddrFrom4([4]byte(p[16:20])), netip.AddrFrom4([4]byte(p[32:36]))
	case 6:
		c.Src, c.Dst = netip.AddrFrom16([16]byte(p[4:20])), netip.AddrFrom16([16]byte(p[20:36]))
	default:
		return c, fmt.Errorf("%w: addresses of IP version %d", errMAD, p[1]>>4)
	}
	return c, nil
}

// gid reads a global identifier, which in RoCE version 2 is an IP address,
// IPv4 mapped into IPv6.
func gid(p []byte) netip.Addr { return netip.AddrFrom16([16]byte(p[:16])).Unmap() }

func putAddr(p []byte, a netip.Addr) {
	b := a.As16()
	copy(p[:16], b[:])
}
