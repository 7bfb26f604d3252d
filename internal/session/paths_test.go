package session

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
)

// pathDialer notes over which paths it is dialed, and refuses some.
type pathDialer struct {
	transport.Dialer
	dialed []transport.Path
	down   map[netip.Addr]bool
}

type pathLink struct {
	transport.Link
	done chan struct{}
}

func (l *pathLink) Done() <-chan struct{} { return l.done }

var errDown = errors.New("down")

func (d *pathDialer) Dial(ctx context.Context) (transport.Link, error) {
	p := transport.PathOf(ctx, transport.Path{})
	d.dialed = append(d.dialed, p)
	if d.down[p.Remote.Addr()] {
		return nil, errDown
	}
	return &pathLink{done: make(chan struct{})}, nil
}

// TestPaths: links are spread over the addresses, the one that was reached first before others; one
// that was lost comes to where the fewest are; one that does not answer is left alone.
func TestPaths(t *testing.T) {
	ip := netip.MustParseAddr
	a, b, c := ip("10.0.0.1"), ip("10.0.0.2"), ip("10.0.0.3")
	d := &pathDialer{down: map[netip.Addr]bool{}}
	p := newPaths(d, netip.AddrPortFrom(b, 2049), []netip.Addr{a, b, c}, []netip.Addr{ip("fd00::1"), ip("10.1.0.1"), ip("10.1.0.2")})
	var links []*pathLink
	dial := func(want netip.Addr) {
		t.Helper()
		l, err := p.Dial(context.Background())
		if err == nil {
			links = append(links, l.(*pathLink))
		}
		if got := d.dialed[len(d.dialed)-1]; got.Remote != netip.AddrPortFrom(want, 2049) || !got.Local.Is4() {
			t.Errorf("dialed %v, want %v from an address of its kind", got, want)
		}
		if (err != nil) != d.down[want] {
			t.Error(err)
		}
	}
	for _, want := range []netip.Addr{b, a, c, b} {
		dial(want)
	}
	var locals []string
	for _, path := range d.dialed {
		locals = append(locals, path.Local.String())
	}
	if want := []string{"10.1.0.1", "10.1.0.2", "10.1.0.1", "10.1.0.2"}; !slices.Equal(locals, want) {
		t.Errorf("from %v, want %v", locals, want)
	}
	close(links[1].done) // that to a
	d.down[a] = true
	dial(a)
	dial(c) // a has just failed
	dial(b)
	d.down[b], d.down[c] = true, true
	dial(c)
	dial(b)
	dial(a) // all have failed: the one that failed first
	d.down = nil
	dial(c)
	dial(c) // the others still rest
}

// TestPathCalledOff: an attempt that was called off says nothing of an address.
func TestPathCalledOff(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.1")
	d := &pathDialer{down: map[netip.Addr]bool{a: true}}
	p := newPaths(d, netip.AddrPortFrom(a, 1), []netip.Addr{netip.MustParseAddr("10.0.0.2")}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 {
		if _, err := p.Dial(ctx); !errors.Is(err, errDown) {
			t.Error(err)
		}
	}
	if d.dialed[1].Remote.Addr() != a {
		t.Errorf("dialed %v", d.dialed)
	}
}
