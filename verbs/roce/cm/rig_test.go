package cm

import (
	"net/netip"
	"testing"
	"time"
)

// host is a manager and its output to its user.
type host struct {
	m      *Manager
	addr   netip.Addr
	events []Event
	// out are its datagrams; the rig delivers them, or a test does.
	out []Datagram
	// lose, when not nil, says which are lost.
	lose func(Attr) bool
}

// collect moves what the manager has into the host.
func (h *host) collect() {
	e, d := h.m.Take()
	h.events = append(h.events, e...)
	for _, x := range d {
		hd, _ := ParseHeader(x.MAD)
		if h.lose == nil || !h.lose(hd.Attr) {
			h.out = append(h.out, x)
		}
	}
}

// event takes the only event, which must be of a kind.
func (h *host) event(t *testing.T, k Kind) Event {
	t.Helper()
	h.collect()
	if len(h.events) != 1 || h.events[0].Kind != k {
		t.Fatalf("events %+v, want one of kind %d", h.events, k)
	}
	e := h.events[0]
	h.events = nil
	return e
}

// rig is two hosts and a clock.
type rig struct {
	t    *testing.T
	now  time.Time
	a, b *host // a dials
	// The two ends of the connection.
	ida, idb ID
}

const port = 20049

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: time.Unix(1e9, 0),
		a: &host{m: New(), addr: netip.MustParseAddr("10.0.0.1")},
		b: &host{m: New(), addr: netip.MustParseAddr("10.0.0.2")}}
	if _, err := r.b.m.Listen(r.service(), 4); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) service() netip.AddrPort { return netip.AddrPortFrom(r.b.addr, port) }

var (
	sideA = Side{QPN: 0xa0, PSN: 1, ReadsIn: 16, ReadsOut: 4, AckTimeout: 17, Retry: 7, RNRRetry: 7, MTU: 3}
	sideB = Side{QPN: 0xb0, PSN: 2, ReadsIn: 8, ReadsOut: 32, AckTimeout: 16, RNRRetry: 7}
)

func (r *rig) dial() {
	r.t.Helper()
	var err error
	r.ida, err = r.a.m.Connect(r.now, netip.AddrPortFrom(r.a.addr, 50000), r.service(), sideA, []byte("hello"))
	if err != nil {
		r.t.Fatal(err)
	}
}

// exchange delivers datagrams until there are none.
func (r *rig) exchange() {
	for {
		r.a.collect()
		r.b.collect()
		a, b := r.a.out, r.b.out
		r.a.out, r.b.out = nil, nil
		if len(a)+len(b) == 0 {
			return
		}
		for _, d := range a {
			r.b.m.Receive(r.now, d.From, d.To, d.MAD)
		}
		for _, d := range b {
			r.a.m.Receive(r.now, d.From, d.To, d.MAD)
		}
	}
}

// pass lets time pass, timer by timer.
func (r *rig) pass(d time.Duration) {
	for end := r.now.Add(d); ; {
		next := end
		for _, h := range []*host{r.a, r.b} {
			if w := h.m.Deadline(); !w.IsZero() && w.Before(next) {
				next = w
			}
		}
		r.now = next
		r.a.m.Tick(r.now)
		r.b.m.Tick(r.now)
		r.exchange()
		if next.Equal(end) {
			return
		}
	}
}

// request has a's request arrive.
func (r *rig) request() Event {
	r.t.Helper()
	r.dial()
	r.exchange()
	e := r.b.event(r.t, Requested)
	r.idb = e.ID
	return e
}

func (r *rig) accept() {
	r.t.Helper()
	if _, _, err := r.b.m.Accept(r.now, r.idb, sideB, []byte("welcome")); err != nil {
		r.t.Fatal(err)
	}
}

// establish makes a connection, and has its repeated RTUs over.
func (r *rig) establish() {
	r.t.Helper()
	r.request()
	r.accept()
	r.exchange()
	r.a.event(r.t, Connected)
	r.b.event(r.t, Established)
	r.pass(time.Second)
	r.up()
}

// up checks that both ends are established.
func (r *rig) up() {
	r.t.Helper()
	if a, b := r.state(r.a, r.ida), r.state(r.b, r.idb); a != activeUp || b != passiveUp {
		r.t.Errorf("states %v and %v", a, b)
	}
}

func (r *rig) state(h *host, id ID) state {
	if c := h.m.conns[id]; c != nil {
		return c.state
	}
	return gone
}
