package rdmadev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
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
	answer, err := ask.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil {
		return Route{}, fmt.Errorf("no route: %w", err)
	}
	if len(answer) == 0 {
		return Route{}, errors.New("the kernel does not answer about the route")
	}
	index, r, err := parseRoute(answer[0])
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

// routeRequest is RTM_GETROUTE for one address (rtnetlink(7)). netlink.RouteGet
// takes neither a source nor a network device.
func routeRequest(to, from netip.Addr) (*nl.NetlinkRequest, error) {
	to, from = to.Unmap(), from.Unmap()
	switch {
	case !to.IsValid():
		return nil, errors.New("no address to look for")
	case from.IsValid() && from.Is4() != to.Is4():
		return nil, fmt.Errorf("%s is an address of another kind", from)
	}
	msg := &nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Dst_len: uint8(to.BitLen()), Src_len: uint8(from.BitLen())}}
	if to.Is6() {
		msg.Family = unix.AF_INET6
	}
	ask := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	ask.AddData(msg)
	ask.AddData(nl.NewRtAttr(unix.RTA_DST, to.AsSlice()))
	if from.IsValid() {
		ask.AddData(nl.NewRtAttr(unix.RTA_SRC, from.AsSlice()))
	}
	if zone := to.Zone(); zone != "" {
		ifi, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("zone %s of the address: %w", zone, err)
		}
		ask.AddData(nl.NewRtAttr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(ifi.Index))))
	}
	return ask, nil
}

// parseRoute reads RTM_NEWROUTE without its netlink header. nl.ParseRouteAttr
// panics if the last attribute is not padded.
func parseRoute(b []byte) (netdev int, r Route, err error) {
	if len(b) < unix.SizeofRtMsg || len(b)%unix.RTA_ALIGNTO != 0 {
		return 0, r, fmt.Errorf("the kernel's answer about the route has %d bytes", len(b))
	}
	switch b[7] { // rtm_type
	case unix.RTN_LOCAL:
		r.Local = true
	case unix.RTN_UNREACHABLE, unix.RTN_BLACKHOLE, unix.RTN_PROHIBIT:
		return 0, r, fmt.Errorf("no route: %w", unix.ENETUNREACH)
	}
	attrs, err := nl.ParseRouteAttr(b[unix.SizeofRtMsg:])
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
