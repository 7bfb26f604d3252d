package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// source is "server:/export" taken apart.
type source struct {
	text   string // as given
	host   string // without brackets
	export string
}

// parseSource takes a name, an IPv4 address, or a bracketed IPv6 address, a
// colon, and an absolute path.
func parseSource(s string) (source, error) {
	bad := func(why string) (source, error) {
		return source{}, fmt.Errorf("%q is not server:/export: %s", s, why)
	}
	var host, export string
	if rest, ok := strings.CutPrefix(s, "["); ok {
		h, after, ok := strings.Cut(rest, "]")
		if !ok || !strings.HasPrefix(after, ":") {
			return bad("an IPv6 address is written [address]:/export")
		}
		a, err := netip.ParseAddr(h)
		if err != nil || !a.Is6() {
			return bad("no IPv6 address in the brackets")
		}
		host, export = h, after[1:]
	} else {
		var ok bool
		host, export, ok = strings.Cut(s, ":")
		switch {
		case !ok:
			return bad("the colon is missing")
		case host == "":
			return bad("the server is missing")
		case !strings.HasPrefix(export, "/") && strings.Contains(export, ":"):
			return bad("an IPv6 address is written [address]:/export")
		}
	}
	if !strings.HasPrefix(export, "/") {
		return bad("the export must be an absolute path")
	}
	return source{text: s, host: host, export: export}, nil
}

// resolve is the server's addresses in the order to try them.
func (s source) resolve(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(s.host); err == nil {
		return []netip.Addr{a.Unmap()}, checkAddr(a.Unmap())
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.host)
	if err != nil {
		return nil, fmt.Errorf("cannot find the server's address: %w (is the name right, and in DNS or /etc/hosts?)", err)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, nil
}

// checkAddr refuses what can be no server's address.
func checkAddr(a netip.Addr) error {
	switch {
	case a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%s is no address of a server", a)
	case !a.Is6() || !a.IsLinkLocalUnicast():
		return nil
	case a.Zone() == "":
		return fmt.Errorf("%s is an address of one link: say which with its network interface, [%s%%eth0]:/export", a, a)
	}
	if _, err := net.InterfaceByName(a.Zone()); err != nil {
		return fmt.Errorf("%s: this host has no network interface %q (ip link lists them)", a, a.Zone())
	}
	return nil
}
