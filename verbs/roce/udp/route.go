package udp

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Route is how a host is reached.
type Route struct {
	// Local is the address of this host to send from.
	Local netip.Addr
	// MTU is the route's, in bytes of IP packets.
	MTU int
}

// RouteTo asks the kernel for the route to a host, from an address of this host
// if local is valid.
func RouteTo(to, local netip.Addr) (Route, error) {
	if err := usable(to); err != nil {
		return Route{}, err
	}
	var from *net.UDPAddr
	if local.IsValid() {
		from = net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	// Connecting a datagram socket sends nothing.
	c, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, Port)))
	if err != nil {
		return Route{}, err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return Route{}, err
	}
	r := Route{Local: c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()}
	level, name := unix.IPPROTO_IP, unix.IP_MTU
	if to.Is6() {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	var opt error
	if err := raw.Control(func(fd uintptr) { r.MTU, opt = unix.GetsockoptInt(int(fd), level, name) }); err != nil {
		return Route{}, err
	}
	if opt != nil {
		return Route{}, fmt.Errorf("MTU of the route to %v: %w", to, opt)
	}
	return r, usable(r.Local)
}

// Payload is the largest path MTU of RoCE, 256 to 4096, whose packets surely
// fit the route: as Linux reckons, with 96 bytes for all headers.
func (r Route) Payload() int {
	p := 4096
	for p > 256 && p > r.MTU-96 {
		p /= 2
	}
	return p
}
