package netns

import (
	"fmt"
	"net/netip"
	"testing"
)

// Link is the name of each host's network card.
const Link = "eth0"

// Host is a namespace with one card.
type Host struct {
	*NS
	IPv4, IPv6 netip.Addr
}

func host(n *NS, i byte) Host {
	return Host{NS: n, IPv4: netip.AddrFrom4([4]byte{10, 77, 0, i}),
		IPv6: netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 15: i})}
}

// up gives the host's card its addresses.
func (h Host) up(mtu int) error {
	return h.Do(func() error {
		return IP(
			fmt.Sprintf("link set %s mtu %d", Link, mtu),
			fmt.Sprintf("addr add %v/24 dev %s", h.IPv4, Link),
			// No detection of duplicates: the address is usable at once.
			fmt.Sprintf("addr add %v/64 dev %s nodad", h.IPv6, Link),
			fmt.Sprintf("link set %s up", Link),
		)
	})
}

// Cut has the host's system cut what it would leave to the card to be cut, so that
// frames on the cable are such as a real one has.
func (h Host) Cut() error {
	return h.Do(func() error { return IP(fmt.Sprintf("link set %s gso_max_segs 1", Link)) })
}

// Hosts joins two hosts by a cable.
func Hosts(t testing.TB, mtu int) (a, b Host) {
	t.Helper()
	a, b = host(Test(t), 1), host(Test(t), 2)
	err := a.Do(func() error {
		return IP(fmt.Sprintf("link add %s type veth peer name %s netns %s", Link, Link, b.Path()))
	})
	for _, h := range []Host{a, b} {
		if err == nil {
			err = h.up(mtu)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// RelayedHosts joins two hosts by a cable with a relay in its middle. The relay
// ends with the test.
func RelayedHosts(t testing.TB, mtu int, w Weather) (a, b Host, r *Relay) {
	t.Helper()
	a, b = host(Test(t), 1), host(Test(t), 2)
	middle := Test(t)
	err := middle.Do(func() error {
		lines := []string{}
		for i, h := range []Host{a, b} {
			lines = append(lines,
				fmt.Sprintf("link add to%d mtu %d type veth peer name %s mtu %d netns %s", i, mtu, Link, mtu, h.Path()),
				fmt.Sprintf("link set to%d up", i))
		}
		return IP(lines...)
	})
	for _, h := range []Host{a, b} {
		if err == nil {
			err = h.up(mtu)
		}
	}
	// The weather is each packet's.
	for _, h := range []Host{a, b} {
		if err == nil {
			err = h.Cut()
		}
	}
	if err == nil {
		r, err = newRelay(middle, w)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return a, b, r
}
