package krb5

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"testing"
)

// TestKDCAddresses reads what may stand behind kdc=.
func TestKDCAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"kdc.a.lan": "kdc.a.lan:88", "kdc.a.lan:750": "kdc.a.lan:750", "192.0.2.1": "192.0.2.1:88",
		"[2001:db8::1]": "[2001:db8::1]:88", "2001:db8::1": "[2001:db8::1]:88", "[2001:db8::1]:750": "[2001:db8::1]:750",
		"https://proxy.a.lan/KdcProxy": "", "a:b:c": "",
	} {
		if got, err := kdcAddress(in); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
	var many []string
	for range 2 * maxKDCs {
		many = append(many, "192.0.2.1")
	}
	c := confOf(t, map[string][]string{"A.LAN": {"192.0.2.1", "192.0.2.2:750"}, "B.LAN": nil, "C.LAN": many, "D.LAN": {"https://x/y"}}, "")
	if got, err := c.kdcs(t.Context(), "A.LAN", "tcp"); err != nil || strings.Join(got, " ") != "192.0.2.1:88 192.0.2.2:750" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := c.kdcs(t.Context(), "C.LAN", "tcp"); err != nil || len(got) != maxKDCs {
		t.Errorf("%d KDCs, %v", len(got), err)
	}
	for _, none := range []string{"B.LAN", "D.LAN", "E.LAN"} {
		if got, err := c.kdcs(t.Context(), none, "tcp"); err == nil {
			t.Errorf("%s: %v", none, got)
		}
	}
}

// srv is an SRV record.
type srv struct {
	priority, port uint16
	target         string
}

// nameOf encodes a name of DNS.
func nameOf(s string) (b []byte) {
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label != "" {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	return append(b, 0)
}

// dnsOf is a resolver that knows these SRV records, and no others.
func dnsOf(t *testing.T, records map[string][]srv) *net.Resolver {
	t.Helper()
	k := (&scriptedKDC{datagram: func(query []byte) [][]byte {
		end := 12
		var name []string
		for query[end] != 0 {
			n := int(query[end])
			name = append(name, string(query[end+1:end+1+n]))
			end += 1 + n
		}
		end += 5 // the root, type and class
		known := records[strings.Join(name, ".")]
		flags := uint16(0x8180)
		if known == nil {
			flags |= 3 // no such name
		}
		b := append([]byte(nil), query[:2]...)
		for _, n := range []uint16{flags, 1, uint16(len(known)), 0, 0} {
			b = binary.BigEndian.AppendUint16(b, n)
		}
		b = append(b, query[12:end]...)
		for _, r := range known {
			target := nameOf(r.target)
			for _, n := range []uint16{0xc00c, 33, 1, 0, 60, uint16(6 + len(target)), r.priority, 0, r.port} {
				b = binary.BigEndian.AppendUint16(b, n)
			}
			b = append(b, target...)
		}
		return [][]byte{b}
	}}).start(t)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", k.addr)
	}}
}

// TestKDCsByDNS: DNS is asked where krb5.conf allows it and has no KDC itself.
func TestKDCsByDNS(t *testing.T) {
	many := make([]srv, 20)
	for i := range many {
		many[i] = srv{1, uint16(1000 + i), "k."}
	}
	dns := dnsOf(t, map[string][]srv{
		"_kerberos._tcp.A.LAN": {{20, 88, "second.a.lan."}, {10, 750, "first.a.lan."}},
		"_kerberos._udp.A.LAN": {{10, 88, "udp.a.lan."}},
		"_kerberos._tcp.B.LAN": {{0, 0, "."}},
		"_kerberos._tcp.C.LAN": many,
	})
	c := confOf(t, map[string][]string{"D.LAN": {"192.0.2.1"}}, "")
	c.resolver, c.LibDefaults.DNSLookupKDC = dns, true
	for name, tc := range map[string]struct{ realm, network, want string }{
		"by priority":       {"A.LAN", "tcp", "first.a.lan:750 second.a.lan:88"},
		"by UDP":            {"A.LAN", "udp", "udp.a.lan:88"},
		"named by the file": {"D.LAN", "tcp", "192.0.2.1:88"},
	} {
		if got, err := c.kdcs(t.Context(), tc.realm, tc.network); err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, tc.want)
		}
	}
	if got, err := c.kdcs(t.Context(), "C.LAN", "tcp"); err != nil || len(got) != maxKDCs {
		t.Errorf("%d KDCs, %v", len(got), err)
	}
	for _, realm := range []string{"B.LAN", "E.LAN"} {
		if got, err := c.kdcs(t.Context(), realm, "tcp"); err == nil {
			t.Errorf("%s: %v", realm, got)
		}
	}
	c.LibDefaults.DNSLookupKDC = false
	if got, err := c.kdcs(t.Context(), "A.LAN", "tcp"); err == nil {
		t.Errorf("without dns_lookup_kdc: %v", got)
	}
}
