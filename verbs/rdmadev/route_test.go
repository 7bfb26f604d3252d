package rdmadev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRouteToLoopback asks the running kernel.
func TestRouteToLoopback(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::ffff:127.0.0.1", "::1"} {
		to := netip.MustParseAddr(a)
		if ln, err := net.Listen("tcp", netip.AddrPortFrom(to, 0).String()); err != nil {
			t.Logf("no %s here: %v", a, err)
			continue
		} else {
			ln.Close()
		}
		for _, from := range []netip.Addr{{}, to} {
			r, err := RouteTo(to, from)
			if err != nil || !r.Local || r.Netdev != "lo" || !r.Source.IsLoopback() || r.Gateway.IsValid() {
				t.Errorf("%s from %s: %+v, %v", a, from, r, err)
			}
		}
	}
	if _, err := RouteTo(netip.Addr{}, netip.Addr{}); err == nil {
		t.Error("a route to no address")
	}
	if _, err := RouteTo(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")); err == nil {
		t.Error("a route from IPv6 to IPv4")
	}
	// 192.0.2.0/24 is for documentation (RFC 5737): nobody has an address in it.
	if _, err := RouteTo(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")); !errors.As(err, new(syscall.Errno)) {
		t.Errorf("a route from an address that is not here: %v", err)
	}
	if _, err := RouteTo(netip.MustParseAddr("fe80::1%no-such-netdev"), netip.Addr{}); err == nil {
		t.Error("a route over a network device that is not there")
	}
}

// TestRouteRequest checks each field where rtnetlink(7) and netlink(7) put it.
func TestRouteRequest(t *testing.T) {
	ask, err := routeRequest(netip.MustParseAddr("10.99.0.2"), netip.MustParseAddr("10.99.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	b := ask.Serialize()
	clear(b[8:12]) // nlmsg_seq
	want := make([]byte, 44)
	binary.NativeEndian.PutUint32(want, 44)
	binary.NativeEndian.PutUint16(want[4:], 26) // RTM_GETROUTE
	binary.NativeEndian.PutUint16(want[6:], 1)  // NLM_F_REQUEST
	want[16], want[17], want[18] = 2, 32, 32    // AF_INET, all 32 bits of both
	binary.NativeEndian.PutUint16(want[28:], 8)
	binary.NativeEndian.PutUint16(want[30:], 1) // RTA_DST
	copy(want[32:], []byte{10, 99, 0, 2})
	binary.NativeEndian.PutUint16(want[36:], 8)
	binary.NativeEndian.PutUint16(want[38:], 2) // RTA_SRC
	copy(want[40:], []byte{10, 99, 0, 1})
	if string(b) != string(want) {
		t.Errorf("got  %x\nwant %x", b, want)
	}
}

// answer is RTM_NEWROUTE with the attributes given.
func answer(kind byte, attrs ...[]byte) []byte {
	b := make([]byte, 28)
	b[16], b[23] = unix.AF_INET, kind
	for _, a := range attrs {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_NEWROUTE)
	return b
}

// parseMessage is parseRoute of the first message in b.
func parseMessage(b []byte) (int, Route, error) {
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil || len(msgs) == 0 {
		return 0, Route{}, fmt.Errorf("%d netlink messages, %v", len(msgs), err)
	}
	return parseRoute(msgs[0].Data)
}

// attr is an attribute, padded.
func attr(kind uint16, value ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&3)...)
}

var (
	oif     = attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, 7)...)
	source  = attr(unix.RTA_PREFSRC, 10, 99, 0, 1)
	gateway = attr(unix.RTA_GATEWAY, 10, 99, 0, 254)
)

func TestParseRoute(t *testing.T) {
	index, r, err := parseMessage(answer(unix.RTN_UNICAST, oif, source, gateway))
	if err != nil || index != 7 || r.Local || r.Source != netip.MustParseAddr("10.99.0.1") || r.Gateway != netip.MustParseAddr("10.99.0.254") {
		t.Errorf("%d, %+v, %v", index, r, err)
	}
	if _, r, err := parseMessage(answer(unix.RTN_LOCAL, oif)); err != nil || !r.Local {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, nil},
		{"no netdev", answer(unix.RTN_UNICAST, source), nil},
		{"no route message", append([]byte{16, 0, 0, 0, 3}, make([]byte, 11)...), nil},
		{"unreachable", answer(unix.RTN_UNREACHABLE, oif), unix.ENETUNREACH},
	} {
		if _, _, err := parseMessage(c.b); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	whole := answer(unix.RTN_UNICAST, oif, source, gateway)
	for n := range whole {
		if _, _, err := parseMessage(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are a route", n)
		}
	}
}

func FuzzParseRoute(f *testing.F) {
	f.Add(answer(unix.RTN_UNICAST, oif, source, gateway))
	f.Add(answer(unix.RTN_LOCAL, oif))
	f.Fuzz(func(t *testing.T, b []byte) {
		if index, _, err := parseMessage(b); err == nil && index == 0 {
			t.Error("a route without a network device")
		}
	})
}
