//go:build cgo && linux

package ibv

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// sockaddr is a struct sockaddr_in6, or a sockaddr_in in its beginning. IPv4
// and IPv6 have family and port in the same places.
type sockaddr [unix.SizeofSockaddrInet6]byte

func makeSockaddr(a netip.AddrPort) (s sockaddr) {
	binary.BigEndian.PutUint16(s[2:], a.Port())
	addr := a.Addr().Unmap()
	if addr.Is4() {
		binary.NativeEndian.PutUint16(s[:], unix.AF_INET)
		b := addr.As4()
		copy(s[4:], b[:])
		return s
	}
	binary.NativeEndian.PutUint16(s[:], unix.AF_INET6)
	b := addr.As16()
	copy(s[8:], b[:])
	binary.NativeEndian.PutUint32(s[24:], zoneID(addr.Zone()))
	return s
}

// addrPort is the zero AddrPort when s holds no address.
func (s *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(s[2:])
	switch binary.NativeEndian.Uint16(s[:]) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s[4:8])), port)
	case unix.AF_INET6:
		addr := netip.AddrFrom16([16]byte(s[8:24])).Unmap()
		if scope := binary.NativeEndian.Uint32(s[24:]); scope != 0 && addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(zoneName(scope))
		}
		return netip.AddrPortFrom(addr, port)
	}
	return netip.AddrPort{}
}

func zoneID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

func zoneName(id uint32) string {
	if i, err := net.InterfaceByIndex(int(id)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// localAddrs are this machine's addresses of the family of like.
func localAddrs(like netip.Addr) []netip.Addr {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var found []netip.Addr
	for _, i := range interfaces {
		all, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range all {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().Is4() != like.Unmap().Is4() || p.Addr().IsLoopback() {
				continue
			}
			addr := p.Addr()
			if addr.Is6() && addr.IsLinkLocalUnicast() {
				addr = addr.WithZone(i.Name)
			}
			found = append(found, addr)
		}
	}
	return found
}
