package knfsd

import (
	"maps"
	"testing"
)

func TestParseForwards(t *testing.T) {
	table := "Hub -1 (net):\r\n" +
		"  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n" +
		"  TCP[HOST_FORWARD]  17       127.0.0.1 35807       10.0.2.15 20049     0     0\r\n" +
		"  TCP[ESTABLISHED]   19       127.0.0.1 40000       10.0.2.15  2049     0     0\r\n" +
		"  TCP[HOST_FORWARD]  16       127.0.0.1 41003       10.0.2.15   111     0     0\r\n"
	got, err := parseForwards(table)
	if want := (map[uint16]uint16{20049: 35807, 111: 41003}); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{
		"TCP[HOST_FORWARD] 17 127.0.0.1 70000 10.0.2.15 20049",
		"TCP[HOST_FORWARD] 17 127.0.0.1 35807 10.0.2.15 port",
	} {
		if got, err := parseForwards(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := (Config{}).withDefaults().check(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	for name, c := range map[string]Config{
		"device":       {RDMA: []Service{TCP}},
		"network":      {Network: Tap + 1},
		"MTU of slirp": {MTU: 1400},
		"MTU":          {Network: Tap, MTU: 70000},
		"disk":         {DiskMiB: -1},
		"threads":      {Threads: -1},
	} {
		if err := c.withDefaults().check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	none := Config{RDMA: []Service{}}.withDefaults()
	if none.has(SIW) || none.has(RXE) {
		t.Error("no devices became some")
	}
}

func TestQuote(t *testing.T) {
	if got := quote("it's; $HOME"); got != `'it'\''s; $HOME'` {
		t.Error(got)
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"one\ntwo\nthree\n", 8, "three\n"}, {"abcdef", 2, "ef"}} {
		if got := string(tail([]byte(c.in), c.n)); got != c.want {
			t.Errorf("last %d of %q: %q", c.n, c.in, got)
		}
	}
}
