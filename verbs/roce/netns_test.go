package roce

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

// elsewhere is a device whose sockets are in a host's namespace.
type elsewhere struct {
	verbs.Device
	host netns.Host
}

func (e elsewhere) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (c verbs.Conn, err error) {
	err = e.host.Do(func() error { c, err = e.Device.Dial(ctx, to, o); return err })
	return c, err
}

func (e elsewhere) Listen(at netip.AddrPort, o verbs.ListenOptions) (l verbs.Listener, err error) {
	err = e.host.Do(func() error { l, err = e.Device.Listen(at, o); return err })
	return l, err
}

// between makes pairs of devices on two hosts.
func between(a, b netns.Host, at netip.Addr) verbstest.NewPair {
	return func(*testing.T) (client, server verbs.Device, addr netip.AddrPort) {
		return elsewhere{Open(Config{}), a}, elsewhere{Open(Config{}), b}, netip.AddrPortFrom(at, 0)
	}
}

func TestTwoHosts(t *testing.T) {
	p := verbstest.Pace{Limit: time.Minute, Rounds: 16}
	for _, mtu := range []int{1500, 4200} {
		a, b := netns.Hosts(t, mtu)
		t.Run(fmt.Sprintf("IPv4, MTU %d", mtu), func(t *testing.T) { verbstest.RunAt(t, between(a, b, b.IPv4), p) })
		t.Run(fmt.Sprintf("IPv6, MTU %d", mtu), func(t *testing.T) { verbstest.RunAt(t, between(a, b, b.IPv6), p) })
	}
}

// weathers are what a network does to the suite.
var weathers = map[string]netns.Weather{
	"clear":    {},
	"loss0.1":  {Loss: 0.001, Seed: 1},
	"loss1":    {Loss: 0.01, Seed: 2},
	"loss5":    {Loss: 0.05, Seed: 3},
	"disorder": {Double: 0.02, Reorder: 0.02, Seed: 4},
	"delay":    {Delay: 20 * time.Millisecond, Seed: 5},
	"storm":    {Loss: 0.01, Double: 0.01, Reorder: 0.01, Delay: 20 * time.Millisecond, Seed: 6},
}

// weatherEnv names the weather that a process is to run the suite in.
const weatherEnv = "RDMAFS_ROCE_WEATHER"

// TestThroughRelay runs the suite in every weather, each in a process of its
// own: most of the time is spent waiting, and the suite counts goroutines.
func TestThroughRelay(t *testing.T) {
	netns.Test(t) // or skip
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type process struct {
		*exec.Cmd
		out bytes.Buffer
	}
	all := make(map[string]*process)
	for name := range weathers {
		p := &process{Cmd: exec.CommandContext(t.Context(), self, "-test.run=^TestWeather$", "-test.v")}
		p.Env = append(os.Environ(), weatherEnv+"="+name)
		p.Stdout, p.Stderr = &p.out, &p.out
		if err := p.Start(); err != nil {
			t.Error(err)
			continue
		}
		all[name] = p
	}
	for name, p := range all {
		t.Run(name, func(t *testing.T) {
			if err := p.Wait(); err != nil {
				t.Errorf("%v\n%s", err, p.out.Bytes())
			}
			for line := range strings.Lines(p.out.String()) {
				if strings.Contains(line, "frames") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

func TestWeather(t *testing.T) {
	name := os.Getenv(weatherEnv)
	if name == "" {
		t.Skip("TestThroughRelay runs it")
	}
	w := weathers[name]
	a, b, r := netns.RelayedHosts(t, 1500, w)
	p := verbstest.Pace{Limit: 3 * time.Minute, Rounds: 8}
	if w.Delay > 0 {
		p.Rounds = 1
	}
	verbstest.RunAt(t, between(a, b, b.IPv4), p)
	t.Logf("%d frames: %d lost, %d doubled, %d reordered", r.Seen.Load(), r.Lost.Load(), r.Doubled.Load(), r.Reordered.Load())
	for what, x := range map[string]struct {
		p float64
		n uint64
	}{"lost": {w.Loss, r.Lost.Load()}, "doubled": {w.Double, r.Doubled.Load()}, "reordered": {w.Reorder, r.Reordered.Load()}} {
		if x.p > 0 && x.n == 0 {
			t.Errorf("no frame was %s", what)
		}
	}
}
