package netns

import (
	"errors"
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

// Cut makes the host's kernel segment what it would leave to the card, so that
// frames on the cable are like those on a real one.
func (h Host) Cut() error {
	return h.Do(func() error { return IP(fmt.Sprintf("link set %s gso_max_segs 1", Link)) })
}

// Hosts joins two hosts by a cable.
func Hosts(t testing.TB, mtu int) (a, b Host) {
	t.Helper()
	a, b = host(Test(t), 1), host(Test(t), 2)
	if err := join(a, b, mtu); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func join(a, b Host, mtu int) error {
	err := a.Do(func() error {
		return IP(fmt.Sprintf("link add %s type veth peer name %s netns %s", Link, Link, b.Path()))
	})
	for _, h := range []Host{a, b} {
		if err == nil {
			err = h.up(mtu)
		}
	}
	return err
}

// RelayedHosts joins two hosts by a cable with a relay in its middle. The relay
// ends with the test.
func RelayedHosts(t testing.TB, mtu int, w Weather) (a, b Host, r *Relay) {
	t.Helper()
	a, b = host(Test(t), 1), host(Test(t), 2)
	r, err := joinRelayed(a, b, Test(t), mtu, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return a, b, r
}

func joinRelayed(a, b Host, middle *NS, mtu int, w Weather) (*Relay, error) {
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
	// The weather is applied to each packet.
	for _, h := range []Host{a, b} {
		if err == nil {
			err = h.Cut()
		}
	}
	if err != nil {
		return nil, err
	}
	return newRelay(middle, w)
}

// Net is two hosts for a program that is no test.
type Net struct {
	A, B Host
	// Relay is in the middle of the cable, nil when there is none.
	Relay *Relay
	all   []*NS
}

// NewNet makes two hosts, with a relay between them if weather is not nil.
func NewNet(mtu int, weather *Weather) (*Net, error) {
	n := new(Net)
	for range 3 {
		ns, err := New()
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		n.all = append(n.all, ns)
	}
	n.A, n.B = host(n.all[0], 1), host(n.all[1], 2)
	var err error
	if weather == nil {
		err = join(n.A, n.B, mtu)
	} else {
		n.Relay, err = joinRelayed(n.A, n.B, n.all[2], mtu, *weather)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close ends the relay and releases the namespaces.
func (n *Net) Close() error {
	if n.Relay != nil {
		n.Relay.close()
	}
	var errs []error
	for _, ns := range n.all {
		errs = append(errs, ns.Close())
	}
	return errors.Join(errs...)
}
