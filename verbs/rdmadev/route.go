package rdmadev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Route is how packets to a server leave this machine.
type Route struct {
	Netdev  string     `json:"netdev"`
	Source  netip.Addr `json:"source"`
	Gateway netip.Addr `json:"gateway,omitzero"`
	// Local: the server is this machine. Netdev is then the one that has the
	// address.
	Local bool `json:"local"`
	MTU   int  `json:"mtu"`
}

// RouteTo asks the kernel for its route to an address, from another if that is
// valid.
func RouteTo(to, from netip.Addr) (Route, error) {
	ask, err := routeRequest(to, from)
	if err != nil {
		return Route{}, err
	}
	answer, err := netlinkAsk(ask)
	if err != nil {
		return Route{}, err
	}
	index, r, err := parseRoute(answer)
	if err != nil {
		return Route{}, err
	}
	ifi, err := net.InterfaceByIndex(index)
	if err != nil {
		return Route{}, fmt.Errorf("network device %d of the route: %w", index, err)
	}
	if r.Local {
		if owner := ownerOf(to); owner != nil {
			ifi = owner
		}
	}
	r.Netdev, r.MTU = ifi.Name, ifi.MTU
	return r, nil
}

// ownerOf is the network device that has an address.
func ownerOf(a netip.Addr) *net.Interface {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for i := range all {
		addrs, err := all[i].Addrs()
		if err != nil {
			continue
		}
		for _, x := range addrs {
			if n, ok := x.(*net.IPNet); ok && n.IP.Equal(net.IP(a.WithZone("").AsSlice())) {
				return &all[i]
			}
		}
	}
	return nil
}

// routeRequest is RTM_GETROUTE for one address (rtnetlink(7)).
func routeRequest(to, from netip.Addr) ([]byte, error) {
	to, from = to.Unmap(), from.Unmap()
	switch {
	case !to.IsValid():
		return nil, errors.New("no address to look for")
	case from.IsValid() && from.Is4() != to.Is4():
		return nil, fmt.Errorf("%s is an address of another kind", from)
	}
	family, ip := uint8(unix.AF_INET), to.AsSlice()
	if to.Is6() {
		family = unix.AF_INET6
	}
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	rt := b[unix.SizeofNlMsghdr:]
	rt[0], rt[1], rt[2] = family, uint8(len(ip)*8), uint8(from.BitLen())
	b = appendAttr(b, unix.RTA_DST, ip)
	if from.IsValid() {
		b = appendAttr(b, unix.RTA_SRC, from.AsSlice())
	}
	if zone := to.Zone(); zone != "" {
		ifi, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("zone %s of the address: %w", zone, err)
		}
		b = appendAttr(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(ifi.Index)))
	}
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETROUTE)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	return b, nil
}

func appendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// netlinkAsk sends one request to the kernel's routing tables and returns the
// datagram that answers it.
func netlinkAsk(ask []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("cannot ask for the route: %w", err)
	}
	defer unix.Close(fd)
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(fd, ask, 0, kernel); err != nil {
		return nil, fmt.Errorf("cannot ask for the route: %w", err)
	}
	b := make([]byte, 16<<10)
	for {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot ask for the route: %w", err)
		}
		if a, ok := from.(*unix.SockaddrNetlink); ok && a.Pid == 0 {
			return b[:n], nil
		}
	}
}

// parseRoute reads the answer: a route, or an errno.
func parseRoute(b []byte) (netdev int, r Route, err error) {
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil || len(msgs) == 0 {
		return 0, r, errors.New("the kernel's answer about the route is no netlink message")
	}
	m := &msgs[0]
	switch {
	case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
		errno := -int32(binary.NativeEndian.Uint32(m.Data))
		return 0, r, fmt.Errorf("no route: %w", unix.Errno(errno))
	case m.Header.Type != unix.RTM_NEWROUTE || len(m.Data) < unix.SizeofRtMsg:
		return 0, r, fmt.Errorf("the kernel answered with netlink message %d", m.Header.Type)
	}
	switch kind := m.Data[7]; kind {
	case unix.RTN_LOCAL:
		r.Local = true
	case unix.RTN_UNREACHABLE, unix.RTN_BLACKHOLE, unix.RTN_PROHIBIT:
		return 0, r, fmt.Errorf("no route: %w", unix.ENETUNREACH)
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, r, fmt.Errorf("the kernel's answer about the route: %w", err)
	}
	for _, a := range attrs {
		addr, isAddr := netip.AddrFromSlice(a.Value)
		switch a.Attr.Type {
		case unix.RTA_OIF:
			if len(a.Value) == 4 {
				netdev = int(binary.NativeEndian.Uint32(a.Value))
			}
		case unix.RTA_PREFSRC, unix.RTA_SRC:
			if isAddr {
				r.Source = addr
			}
		case unix.RTA_GATEWAY:
			if isAddr {
				r.Gateway = addr
			}
		}
	}
	if netdev == 0 {
		return 0, r, errors.New("the route names no network device")
	}
	return netdev, r, nil
}

// On are the devices that stand on a network device, with the port of each.
func (t *Tree) On(devices []Device, netdev string) []At {
	var found []At
	for i := range devices {
		for j := range devices[i].Ports {
			if slices.Contains(devices[i].Ports[j].Netdevs(), netdev) {
				found = append(found, At{&devices[i], &devices[i].Ports[j]})
			}
		}
	}
	if len(found) > 0 {
		return found
	}
	// IP over InfiniBand: the GIDs name no network device.
	name := t.Map.DeviceOf(netdev)
	for i := range devices {
		if devices[i].Name == name {
			for j := range devices[i].Ports {
				found = append(found, At{&devices[i], &devices[i].Ports[j]})
			}
		}
	}
	return found
}

// At is a port of a device.
type At struct {
	Device *Device
	Port   *Port
}
