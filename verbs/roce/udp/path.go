package udp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Path is the way to one host: what sending to it needs, made once.
type Path struct {
	from, to netip.Addr
	pseudo   pseudo
	name     [unix.SizeofSockaddrInet6]byte
	nameLen  uint32
	control  [controlSize]byte
	ctrlLen  int
}

// controlSize has room for the packet info of either family.
const controlSize = 64

// NewPath makes the path between two hosts. from is an address of this host: a
// socket may have many.
func NewPath(from, to netip.Addr) (*Path, error) {
	for _, a := range []netip.Addr{from, to} {
		if err := usable(a); err != nil {
			return nil, err
		}
	}
	if from.Is4() != to.Is4() {
		return nil, fmt.Errorf("no path from %v to %v: two versions of IP", from, to)
	}
	p := &Path{from: from, to: to}
	p.pseudo.fill(netip.AddrPortFrom(from, Port), netip.AddrPortFrom(to, Port))
	binary.BigEndian.PutUint16(p.name[2:], Port)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&p.control[0]))
	data := p.control[unix.CmsgLen(0):]
	var size int
	if from.Is4() {
		binary.NativeEndian.PutUint16(p.name[:], unix.AF_INET)
		a := to.As4()
		copy(p.name[4:], a[:])
		p.nameLen = unix.SizeofSockaddrInet4
		h.Level, h.Type, size = unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo
		a = from.As4()
		copy(data[4:], a[:]) // ipi_spec_dst
	} else {
		binary.NativeEndian.PutUint16(p.name[:], unix.AF_INET6)
		a := to.As16()
		copy(p.name[8:], a[:])
		p.nameLen = unix.SizeofSockaddrInet6
		h.Level, h.Type, size = unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo
		a = from.As16()
		copy(data, a[:])
	}
	h.SetLen(unix.CmsgLen(size))
	p.ctrlLen = unix.CmsgSpace(size)
	return p, nil
}

// From and To are the ends.
func (p *Path) From() netip.Addr { return p.from }

// To is the far end.
func (p *Path) To() netip.Addr { return p.to }
