package options

import (
	"fmt"
	"strings"
	"testing"
)

func TestPorts(t *testing.T) {
	for _, c := range []struct{ text, want, fails string }{
		{"10.0.0.1", "[10.0.0.1]", ""},
		{"10.0.0.254-10.0.1.1~10.0.0.255~192.168.0.1", "[10.0.0.254 10.0.0.255 10.0.1.0 10.0.1.1 192.168.0.1]", ""},
		{"fd00::1-fd00::3~::ffff:10.0.0.1", "[fd00::1 fd00::2 fd00::3 10.0.0.1]", ""},
		{"10.0.0.2-10.0.0.1", "", "no range"},
		{"10.0.0.1-fd00::1", "", "no range"},
		{"10.0.0.0-10.0.1.0", "", "more than 256"},
		{"fd00::-fdff::", "", "more than 256"},
		{"10.0.0.1~", "", "unable to parse"},
		{"0.0.0.0", "", "no host"},
		{"223.255.255.255-224.0.0.1", "", "no host"},
		{"server", "", "wants addresses of the server, or dns"},
		{"", "", "wants addresses"},
	} {
		o, err := Parse([]string{"remoteports=" + c.text})
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v, want %q", c.text, err, c.fails)
			}
		case err != nil || fmt.Sprint(o.RemotePorts) != c.want || !o.Spread():
			t.Errorf("%q: %v, %v, want %s", c.text, o.RemotePorts, err, c.want)
		}
	}
	if o, err := Parse([]string{"remoteports=dns"}); err != nil || !o.Spread() || !o.RemoteDNS {
		t.Errorf("dns: %+v, %v", o, err)
	}
	if o, err := Parse([]string{"remoteports=dns,remoteports=10.0.0.1"}); err != nil || o.RemoteDNS {
		t.Errorf("the last one holds: %+v, %v", o, err)
	}
}
