package cm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
)

func TestConnect(t *testing.T) {
	r := newRig(t)
	e := r.request()
	if e.Peer != sideA || e.Remote != netip.AddrPortFrom(r.a.addr, 50000) || e.Local != r.service() || !bytes.Equal(e.Private, field(REQPrivate, []byte("hello")...)) {
		t.Errorf("request %+v", e)
	}
	in, out, err := r.b.m.Accept(r.now, r.idb, sideB, []byte("welcome"))
	if err != nil || in != 4 || out != 16 {
		t.Errorf("depths %d and %d, %v", in, out, err)
	}
	r.exchange()
	e = r.a.event(t, Connected)
	if e.Peer.QPN != sideB.QPN || e.Peer.PSN != sideB.PSN || e.Peer.AckTimeout != 16 || e.Peer.RNRRetry != 7 ||
		e.ReadsIn != 16 || e.ReadsOut != 4 || !bytes.Equal(e.Private, field(REPPrivate, []byte("welcome")...)) {
		t.Errorf("connected %+v", e)
	}
	r.b.event(t, Established)
	r.up()
	if !r.a.m.Busy(sideA.QPN) || !r.b.m.Busy(sideB.QPN) || r.a.m.Busy(sideB.QPN) {
		t.Error("the queue pairs of the connection are not busy")
	}

	r.a.m.Close(r.now, r.ida)
	r.exchange()
	if e := r.b.event(t, Disconnected); !errors.Is(e.Err, ErrPeerLeft) {
		t.Errorf("disconnected: %v", e.Err)
	}
	if len(r.a.events) != 0 {
		t.Errorf("the side that closed got %+v", r.a.events)
	}
	if !r.a.m.Busy(sideA.QPN) || !r.b.m.Busy(sideB.QPN) {
		t.Error("a queue pair is free before timewait is over")
	}
	r.pass(time.Minute)
	r.empty()
}

// empty checks that nothing is left.
func (r *rig) empty() {
	r.t.Helper()
	for _, h := range []*host{r.a, r.b} {
		m := h.m
		if len(m.conns)+len(m.passive)+len(m.pairs)+len(h.events) != 0 || !m.Deadline().IsZero() {
			r.t.Errorf("%d connections, %d by peer, %d by queue pair, events %+v, next deadline %v",
				len(m.conns), len(m.passive), len(m.pairs), h.events, m.Deadline())
		}
		for _, l := range m.listeners {
			if l.pending != 0 {
				r.t.Errorf("%d connections pending", l.pending)
			}
		}
	}
}

// TestLossOfEach loses each message twice: the connection is made and ended
// all the same, with each event once.
func TestLossOfEach(t *testing.T) {
	for _, lost := range []Attr{AttrREQ, AttrREP, AttrRTU, AttrDREQ, AttrDREP} {
		r := newRig(t)
		left := 2
		lose := func(a Attr) bool {
			if a == lost && left > 0 {
				left--
				return true
			}
			return false
		}
		r.a.lose, r.b.lose = lose, lose
		r.dial()
		r.pass(time.Second)
		r.idb = r.b.event(t, Requested).ID
		r.accept()
		r.pass(time.Second)
		r.a.event(t, Connected)
		r.b.event(t, Established)
		r.a.m.Close(r.now, r.ida)
		r.pass(time.Minute)
		r.b.event(t, Disconnected)
		if left != 0 {
			t.Errorf("%v was not lost", lost)
		}
		r.empty()
	}
}

// TestDuplicates delivers every datagram twice, and old ones at the end.
func TestDuplicates(t *testing.T) {
	r := newRig(t)
	var all []Datagram
	deliver := func() {
		for range 4 {
			for _, h := range []*host{r.a, r.b} {
				h.collect()
				for _, d := range h.out {
					all = append(all, d)
					to := r.a
					if d.To == r.b.addr {
						to = r.b
					}
					to.m.Receive(r.now, d.From, d.To, d.MAD)
					to.m.Receive(r.now, d.From, d.To, d.MAD)
				}
				h.out = nil
			}
		}
	}
	r.dial()
	deliver()
	r.idb = r.b.event(t, Requested).ID
	r.accept()
	deliver()
	r.a.event(t, Connected)
	r.b.event(t, Established)
	r.up()
	r.b.m.Close(r.now, r.idb)
	deliver()
	r.a.event(t, Disconnected)
	for _, d := range all {
		r.a.m.Receive(r.now, d.From, d.To, d.MAD)
		r.b.m.Receive(r.now, d.From, d.To, d.MAD)
	}
	r.exchange()
	r.pass(time.Minute)
	r.empty()
}

// TestFirstPacketCountsAsRTU: with every RTU lost.
func TestFirstPacketCountsAsRTU(t *testing.T) {
	r := newRig(t)
	r.a.lose = func(a Attr) bool { return a == AttrRTU }
	r.request()
	r.accept()
	r.exchange()
	r.a.event(t, Connected)
	r.b.m.Heard(r.now, r.idb)
	r.b.event(t, Established)
	r.b.m.Heard(r.now, r.idb)
	r.pass(time.Minute)
	r.up()
	if len(r.a.events)+len(r.b.events) != 0 {
		t.Errorf("events %+v %+v", r.a.events, r.b.events)
	}
}

func TestSilence(t *testing.T) {
	r := newRig(t)
	r.a.lose = func(Attr) bool { return true }
	r.dial()
	r.pass(time.Minute)
	if e := r.a.event(t, Failed); !errors.Is(e.Err, ErrNoAnswer) {
		t.Error(e.Err)
	}
	r.empty()

	// The passive side gives up on an RTU that never comes; a's REJ is lost, too.
	r = newRig(t)
	r.request()
	r.a.lose = func(Attr) bool { return true }
	r.accept()
	r.pass(time.Minute)
	if e := r.b.event(t, Failed); !errors.Is(e.Err, ErrNoAnswer) {
		t.Error(e.Err)
	}

	// The consumer never looks.
	r = newRig(t)
	r.request()
	r.pass(2 * time.Minute)
	r.b.event(t, Failed)
	var re *RejectError
	if e := r.a.event(t, Failed); !errors.As(e.Err, &re) || re.Reason != ReasonNoResources {
		t.Error(e.Err)
	}
	if _, _, err := r.b.m.Accept(r.now, r.idb, sideB, nil); err == nil {
		t.Error("what failed can be accepted")
	}
	r.empty()
}

// TestMRA: a duplicate request is answered with MRA, and its sender waits.
func TestMRA(t *testing.T) {
	r := newRig(t)
	r.request()
	r.pass(300 * time.Millisecond)
	if s := r.state(r.a, r.ida); s != reqWait {
		t.Fatalf("state %v", s)
	}
	sent := 0
	r.a.lose = func(Attr) bool { sent++; return false }
	r.pass(30 * time.Second)
	if sent != 0 {
		t.Errorf("%d datagrams while waiting", sent)
	}
	r.accept()
	r.exchange()
	r.a.event(t, Connected)
	r.b.event(t, Established)

	// For ever it does not wait.
	r = newRig(t)
	r.dial()
	for range 100 {
		mra := MRA{CommID: 9, RemoteID: uint32(r.ida), Of: OfREQ, Timeout: 31}
		r.a.m.Receive(r.now, r.b.addr, r.a.addr, mra.Append(nil, 1))
		r.a.m.Take()
		r.now = r.now.Add(longestWait - 1)
		r.a.m.Tick(r.now)
	}
	r.a.m.Tick(r.now.Add(longestWait))
	r.a.lose = func(Attr) bool { return true }
	r.pass(10 * time.Minute)
	r.a.event(t, Failed)
}

func TestReject(t *testing.T) {
	r := newRig(t)
	r.request()
	r.b.lose = func(Attr) bool { return true }
	if err := r.b.m.Reject(r.now, r.idb, []byte("full")); err != nil {
		t.Fatal(err)
	}
	r.b.collect()
	r.b.lose = nil
	r.pass(time.Second) // the request comes again
	var re *RejectError
	e := r.a.event(t, Failed)
	if !errors.As(e.Err, &re) || re.Reason != ReasonConsumer || !bytes.Equal(re.Private, field(REJPrivate, []byte("full")...)) {
		t.Errorf("%v", e.Err)
	}
	r.pass(time.Minute)
	r.empty()
}

func TestRefusals(t *testing.T) {
	ok := func(r *rig) REQ {
		return REQ{CommID: 7, ServiceID: portSpaceTCP | port, CAGUID: 3, QPN: 77, MTU: 3, LocalGID: r.a.addr, RemoteGID: r.b.addr,
			Addresses: CMA{Src: r.a.addr, Dst: r.b.addr}}
	}
	for _, x := range []struct {
		name   string
		change func(*rig, *REQ)
		want   Reason
	}{
		{"nobody listens", func(r *rig, m *REQ) { m.ServiceID++ }, ReasonNoService},
		{"UDP port space", func(r *rig, m *REQ) { m.ServiceID = 0x111<<16 | port }, ReasonNoService},
		{"transport", func(r *rig, m *REQ) { m.Transport = 1 }, ReasonTransport},
		{"another's GID", func(r *rig, m *REQ) { m.LocalGID = netip.MustParseAddr("10.0.0.7") }, ReasonGID},
		{"GID that is not ours", func(r *rig, m *REQ) { m.RemoteGID = netip.MustParseAddr("10.0.0.7") }, ReasonGID},
		{"MTU 0", func(r *rig, m *REQ) { m.MTU = 0 }, ReasonUnsupported},
		{"MTU 6", func(r *rig, m *REQ) { m.MTU = 6 }, ReasonUnsupported},
		{"QP 1", func(r *rig, m *REQ) { m.QPN = 1 }, ReasonUnsupported},
	} {
		r := newRig(t)
		m := ok(r)
		x.change(r, &m)
		r.b.m.Receive(r.now, r.a.addr, r.b.addr, m.Append(nil, 42))
		events, out := r.b.m.Take()
		if len(events) != 0 || len(out) != 1 {
			t.Errorf("%s: %d events, %d datagrams", x.name, len(events), len(out))
			continue
		}
		rej, err := ParseREJ(out[0].MAD)
		if h, _ := ParseHeader(out[0].MAD); err != nil || rej.Reason != x.want || rej.RemoteID != 7 || h.TID != 42 || out[0].To != r.a.addr {
			t.Errorf("%s: %+v, %v", x.name, rej, err)
		}
		r.empty()
	}
	// The addressing header.
	r := newRig(t)
	m := ok(r)
	b := m.Append(nil, 1)
	b[headerSize+reqPrivateAt] = 9
	r.b.m.Receive(r.now, r.a.addr, r.b.addr, b)
	if _, out := r.b.m.Take(); len(out) != 1 {
		t.Error("a strange addressing header is not answered")
	}
}

// TestStale: a queue pair that comes back is refused, and what it was before
// is over.
func TestStale(t *testing.T) {
	r := newRig(t)
	r.establish()
	crashed := r.a.m
	r.a.m = New()
	r.a.m.guid = crashed.guid
	r.dial()
	r.exchange()
	var re *RejectError
	if e := r.a.event(t, Failed); !errors.As(e.Err, &re) || re.Reason != ReasonStale {
		t.Errorf("dialed again: %v", e.Err)
	}
	if e := r.b.event(t, Disconnected); !errors.Is(e.Err, ErrStale) {
		t.Errorf("the old connection: %v", e.Err)
	}
	r.pass(time.Minute)
	r.empty()
	r.dial()
	r.exchange()
	r.b.event(t, Requested)
}

// TestServerComesBack: it reuses a queue pair, and is believed.
func TestServerComesBack(t *testing.T) {
	r := newRig(t)
	r.establish()
	old := r.ida
	guid := r.b.m.guid
	r.b.m = New()
	r.b.m.guid = guid
	if _, err := r.b.m.Listen(r.service(), 1); err != nil {
		t.Fatal(err)
	}
	other := sideA
	other.QPN++
	id, err := r.a.m.Connect(r.now, netip.AddrPortFrom(r.a.addr, 50001), r.service(), other, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.exchange()
	r.idb = r.b.event(t, Requested).ID
	r.accept()
	r.exchange()
	r.a.collect()
	if len(r.a.events) != 2 || r.a.events[0].ID != old || r.a.events[0].Kind != Disconnected || r.a.events[1].ID != id || r.a.events[1].Kind != Connected {
		t.Errorf("events %+v", r.a.events)
	}
}

// TestSpoof: from another address, or without the right names, nothing
// changes a connection.
func TestSpoof(t *testing.T) {
	r := newRig(t)
	r.establish()
	peer, id := uint32(r.ida), uint32(r.idb)
	stranger := netip.MustParseAddr("10.0.0.9")
	for _, x := range []struct {
		name string
		from netip.Addr
		m    message
	}{
		{"DREQ from elsewhere", stranger, &DREQ{CommID: peer, RemoteID: id, RemoteQPN: sideB.QPN}},
		{"DREQ of another queue pair", r.a.addr, &DREQ{CommID: peer, RemoteID: id, RemoteQPN: sideB.QPN + 1}},
		{"DREQ of another connection", r.a.addr, &DREQ{CommID: peer + 1, RemoteID: id, RemoteQPN: sideB.QPN}},
		{"REJ from elsewhere", stranger, &REJ{CommID: peer, RemoteID: id, Reason: ReasonStale}},
		{"REJ of another connection", r.a.addr, &REJ{CommID: peer + 1, RemoteID: id, Reason: ReasonStale}},
		{"REJ without a name", r.a.addr, &REJ{RemoteID: id, Reason: ReasonStale}},
		{"REJ for time by GUID from elsewhere", stranger, &REJ{CommID: peer, Reason: ReasonTimeout, Info: be.AppendUint64(nil, r.a.m.guid)}},
		{"REQ of the same queue pair from elsewhere", stranger, &REQ{CommID: 1, ServiceID: portSpaceTCP | port, CAGUID: r.a.m.guid, QPN: sideA.QPN, MTU: 3,
			LocalGID: stranger, RemoteGID: r.b.addr, Addresses: CMA{Src: stranger, Dst: r.b.addr}}},
	} {
		r.b.m.Receive(r.now, x.from, r.b.addr, x.m.Append(nil, 1))
		events, out := r.b.m.Take()
		for _, e := range events {
			if e.Kind != Requested {
				t.Errorf("%s: event %+v", x.name, e)
			}
		}
		for _, d := range out {
			if d.To != x.from {
				t.Errorf("%s: a datagram goes to %v", x.name, d.To)
			}
		}
		r.up()
	}
	// A REP from elsewhere, or to the passive side, makes no connection.
	r = newRig(t)
	r.dial()
	rep := REP{CommID: 5, RemoteID: uint32(r.ida), QPN: 6}
	r.a.m.Receive(r.now, stranger, r.a.addr, rep.Append(nil, 1))
	rep.QPN = 1
	r.a.m.Receive(r.now, r.b.addr, r.a.addr, rep.Append(nil, 1))
	if s := r.state(r.a, r.ida); s != reqSent {
		t.Errorf("state %v", s)
	}
}

// TestUnknown: what names no connection is answered so that its sender lets go.
func TestUnknown(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		m    message
		want Attr
	}{
		{&REP{CommID: 5, RemoteID: 6, QPN: 7}, AttrREJ},
		{&DREQ{CommID: 5, RemoteID: 6, RemoteQPN: 7}, AttrDREP},
		{&RTU{CommID: 5, RemoteID: 6}, 0},
		{&DREP{CommID: 5, RemoteID: 6}, 0},
		{&MRA{CommID: 5, RemoteID: 6}, 0},
		{&REJ{CommID: 5, RemoteID: 6}, 0},
	} {
		r.a.m.Receive(r.now, r.b.addr, r.a.addr, x.m.Append(nil, 3))
		events, out := r.a.m.Take()
		var got Attr
		for _, d := range out {
			h, _ := ParseHeader(d.MAD)
			got = h.Attr
			if be.Uint32(d.MAD[headerSize+4:]) != 5 || h.TID != 3 {
				t.Errorf("%T: answer %x", x.m, d.MAD)
			}
		}
		if got != x.want || len(events) != 0 || len(out) > 1 {
			t.Errorf("%T: %v, %+v", x.m, got, events)
		}
	}
}

// TestFlood: strangers fill a backlog, and the table, but no more.
func TestFlood(t *testing.T) {
	r := newRig(t)
	if _, err := r.b.m.Listen(netip.AddrPortFrom(r.b.addr, port+1), 2*maxConns); err != nil {
		t.Fatal(err)
	}
	refused := 0
	flood := func(to uint16, n int) {
		for i := range n {
			from := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
			m := REQ{CommID: uint32(to)<<16 | uint32(i), ServiceID: portSpaceTCP | uint64(to), CAGUID: uint64(to), QPN: uint32(i + 2), MTU: 3,
				LocalGID: from, RemoteGID: r.b.addr, Addresses: CMA{Src: from, Dst: r.b.addr}}
			r.b.m.Receive(r.now, from, r.b.addr, m.Append(nil, 1))
			_, out := r.b.m.Take()
			refused += len(out)
		}
	}
	flood(port, 100)
	if n := len(r.b.m.conns); n != 4 || refused != 0 {
		t.Errorf("%d connections with a backlog of 4, %d refusals", n, refused)
	}
	flood(port+1, maxConns-4+10)
	if n := len(r.b.m.conns); n != maxConns || refused != 10 {
		t.Errorf("%d connections, %d refusals", n, refused)
	}
	if _, err := r.b.m.Connect(r.now, netip.AddrPortFrom(r.b.addr, 1), r.service(), sideA, nil); !errors.Is(err, ErrFull) {
		t.Errorf("connect with a full table: %v", err)
	}
	r.b.m.Tick(r.now.Add(time.Minute))
	r.b.m.Take()
	r.b.m.Tick(r.now.Add(2 * time.Minute))
	r.b.m.Take()
	r.empty()
}

func TestListen(t *testing.T) {
	m := New()
	at := netip.MustParseAddrPort("10.0.0.2:0")
	p, err := m.Listen(at, 1)
	if err != nil || p < firstPort {
		t.Fatalf("port %d, %v", p, err)
	}
	at = netip.AddrPortFrom(at.Addr(), p)
	if _, err := m.Listen(at, 1); err == nil {
		t.Error("a port is listened on twice")
	}
	m.Unlisten(at)
	if _, err := m.Listen(at, 1); err != nil {
		t.Error(err)
	}
	if _, err := m.Listen(netip.MustParseAddrPort("[::]:7"), 1); err != nil || m.listenerFor(netip.MustParseAddrPort("[fd00::1]:7")) == nil || m.listenerFor(netip.MustParseAddrPort("1.2.3.4:7")) != nil {
		t.Error("the unspecified address does not stand for all of its family")
	}
}

func TestPrivateDataLimits(t *testing.T) {
	r := newRig(t)
	if _, err := r.a.m.Connect(r.now, r.service(), r.service(), sideA, make([]byte, REQPrivate+1)); err == nil {
		t.Error("too much private data in a request")
	}
	r.request()
	if _, _, err := r.b.m.Accept(r.now, r.idb, sideB, make([]byte, REPPrivate+1)); err == nil {
		t.Error("too much private data in an answer")
	}
	if err := r.b.m.Reject(r.now, r.idb, make([]byte, REJPrivate+1)); err == nil {
		t.Error("too much private data in a refusal")
	}
	if REQPrivate != 56 || REPPrivate != 196 || REJPrivate != 148 {
		t.Error(REQPrivate, REPPrivate, REJPrivate)
	}
}

func TestDialError(t *testing.T) {
	to := netip.MustParseAddrPort("10.0.0.2:20049")
	var re *verbs.RejectError
	var ce *verbs.ConnError
	for _, x := range []struct {
		err    error
		reject bool
	}{
		{&RejectError{Reason: ReasonNoService}, true},
		{&RejectError{Reason: ReasonConsumer, Private: []byte("x")}, true},
		{&RejectError{Reason: ReasonStale}, false},
		{&RejectError{Reason: ReasonTimeout}, false},
		{ErrNoAnswer, false},
	} {
		err := DialError(to, x.err)
		if errors.As(err, &re) != x.reject || errors.As(err, &ce) == x.reject {
			t.Errorf("%v became %v", x.err, err)
		}
		if x.reject && (re.Remote != to || re.Reason == "") {
			t.Errorf("%+v", re)
		}
		if !x.reject && !errors.Is(err, x.err) {
			t.Errorf("%v does not hold %v", err, x.err)
		}
	}
}
