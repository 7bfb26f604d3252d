package source

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Source is "server:/export" taken apart.
type Source struct {
	Text   string // as given
	Host   string // without brackets
	Export string // "" where a server alone was given
}

// Parse takes a name, an IPv4 address, or a bracketed IPv6 address, a
// colon, and an absolute path.
func Parse(s string) (Source, error) {
	bad := func(why string) (Source, error) {
		return Source{}, fmt.Errorf("%q is not server:/export: %s", s, why)
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
	return Source{Text: s, Host: host, Export: export}, nil
}

// Resolve finds the server's addresses, in the order to try them.
func (s Source) Resolve(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(s.Host); err == nil {
		return []netip.Addr{a.Unmap()}, checkAddr(a.Unmap())
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.Host)
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

// ParseServer takes what Parse does, and a server alone.
func ParseServer(s string) (Source, error) {
	host := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		host = s[1 : len(s)-1]
	}
	if _, err := netip.ParseAddr(host); err == nil || !strings.ContainsAny(s, ":[]/") && s != "" {
		return Source{Text: s, Host: host}, nil
	}
	return Parse(s)
}
