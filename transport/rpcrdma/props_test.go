package rpcrdma

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
)

// TestPropsTable walks every pair of state and event.
func TestPropsTable(t *testing.T) {
	const unknown, asked, settled = propsUnknown, propsAsked, propsSettled
	for s, want := range map[propsState][propsEvents]propsState{
		unknown: {propsSuit: settled, propsDiffer: asked, propsAnswer: unknown},
		asked:   {propsSuit: asked, propsDiffer: asked, propsAnswer: settled},
		settled: {propsSuit: settled, propsDiffer: settled, propsAnswer: settled},
	} {
		for e := range propsEvents {
			if got := propsNext[s][e]; got != want[e] {
				t.Errorf("state %d, event %d: %d, want %d", s, e, got, want[e])
			}
		}
	}
}

// tell has p receive a message and returns what it makes due.
func tell(t *testing.T, p *props, xid uint32, proc wire.Proc, v V2) (due []Header) {
	t.Helper()
	// Through the codec, as all messages come.
	h := Header{XID: xid, Version: Version2, Proc: proc, V2: v}
	var got Header
	if _, err := ParseHeader(encodeHeader(&h), &got); err != nil {
		t.Fatal(err)
	}
	if err := p.received(got.message()); err != nil {
		t.Fatal(err)
	}
	for {
		h, ok := nextOf(p)
		if !ok {
			return due
		}
		p.sent(h.message())
		due = append(due, h)
	}
}

func introduction(size, backward uint32, nochange ...int) V2 {
	return V2{Props: propSet(prop(wire.PropReceiveSize, size), prop(wire.PropBackward, backward)), NoChange: subset(nochange...)}
}

// TestPropsAsk has the peer asked for what suits us, and its answers taken: the
// draft, sections 6.2.1 and 6.3.3.
func TestPropsAsk(t *testing.T) {
	size := func(n uint32) wire.PropSet { return propSet(prop(wire.PropReceiveSize, n)) }
	for _, c := range []struct {
		name          string
		intro         V2
		asks          int // 0: not at all
		answer        V2
		during, after int // the send limit
	}{
		{"suits", introduction(16384, 1), 0, V2{}, 16384, 16384},
		{"default, not to change", introduction(4096, 1, 0), 0, V2{}, 4096, 4096},
		{"nothing told", V2{}, 0, V2{}, 4096, 4096},
		{"default by no value", V2{Props: propSet(func(s *wire.PropSet) { s.Add(wire.PropReceiveSize, nil) })}, 16384, V2{Done: subset(0)}, 4096, 16384},
		{"less than may be", introduction(100, 1, 0), 0, V2{}, 4096, 4096},
		{"raise, done", introduction(4096, 1), 16384, V2{Done: subset(0)}, 4096, 16384},
		{"raise, rejected", introduction(4096, 1), 16384, V2{Rejected: subset(0)}, 4096, 4096},
		{"raise, in part", introduction(4096, 1), 16384, V2{Props: size(8192)}, 4096, 8192},
		{"raise, in part, below the least", introduction(8192, 1), 16384, V2{Props: size(5)}, 8192, 4096},
		{"raise, done and rejected", introduction(4096, 1), 16384, V2{Done: subset(0), Rejected: subset(0)}, 4096, 4096},
		{"raise, done and other", introduction(4096, 1), 16384, V2{Done: subset(0), Props: size(9000)}, 4096, 4096},
		{"raise, other twice", introduction(4096, 1), 16384, V2{Props: propSet(prop(wire.PropReceiveSize, 8192), prop(wire.PropReceiveSize, 9000))}, 4096, 4096},
		{"raise, nothing said", introduction(4096, 1), 16384, V2{}, 4096, 4096},
		{"raise, said of what was not asked", introduction(4096, 1), 16384, V2{Done: subset(1, 40), Props: propSet(prop(wire.PropBackward, 2), prop(99, 1))}, 4096, 4096},
		{"lower, done", introduction(65536, 1), 16384, V2{Done: subset(0)}, 16384, 16384},
		{"lower, rejected", introduction(65536, 1), 16384, V2{Rejected: subset(0)}, 16384, 16384},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProps(4, 8192, 16384, wire.BackwardNone)
			p.begin(77)
			if h, ok := nextOf(p); !ok || h.Proc != wire.ProcConnProp {
				t.Fatalf("got %+v", h)
			} else {
				p.sent(h.message())
			}
			due := tell(t, p, 1, wire.ProcConnProp, c.intro)
			switch {
			case c.asks == 0 && len(due) > 0:
				t.Fatalf("got %+v", due)
			case c.asks > 0:
				if len(due) != 1 {
					t.Fatalf("%d messages", len(due))
				}
				wantProps(t, &due[0], wire.ProcReqProp, fmt.Sprintf("1=%d", c.asks))
				if n := p.sendLimit(); n != c.during {
					t.Errorf("limit %d while asking, want %d", n, c.during)
				}
				// An answer to something else, and a second introduction, change nothing.
				tell(t, p, due[0].XID+1, wire.ProcResProp, V2{Done: subset(0)})
				if again := tell(t, p, 2, wire.ProcConnProp, c.intro); len(again) > 0 || p.sendLimit() != c.during {
					t.Errorf("limit %d, asked again %+v", p.sendLimit(), again)
				}
				tell(t, p, due[0].XID, wire.ProcResProp, c.answer)
			}
			if n := p.sendLimit(); n != c.after {
				t.Errorf("limit %d, want %d", n, c.after)
			}
			// Later news hold at once; ours is never exceeded.
			tell(t, p, 3, wire.ProcUpdProp, V2{Props: size(1 << 30)})
			if n := p.sendLimit(); n != 16384 {
				t.Errorf("limit %d after an update", n)
			}
			tell(t, p, 4, wire.ProcUpdProp, V2{Props: propSet(prop(0xffffff01, 7), prop(wire.PropReceiveSize, 5000), prop(wire.PropBackward, 2))})
			if n, b := p.sendLimit(), p.peerTakes(); n != 5000 || b != wire.BackwardGeneral {
				t.Errorf("limit %d, backward %v after an update", n, b)
			}
		})
	}
}

// TestPropsRefused has a peer without property messages answer them with errors.
func TestPropsRefused(t *testing.T) {
	p := newProps(4, 8192, 16384, wire.BackwardNone)
	if p.refused(78) {
		t.Error("a message that was not sent is refused")
	}
	p.begin(77)
	p.begin(99)
	conn, _ := nextOf(p)
	if _, ok := nextOf(p); ok {
		t.Error("introduced twice")
	}
	due := tell(t, p, 1, wire.ProcConnProp, introduction(4096, 1))
	for xid, want := range map[uint32]bool{77: false, conn.XID: true, due[0].XID: true, due[0].XID + 1: false} {
		if got := p.refused(xid); got != want {
			t.Errorf("message %d: %v", xid, got)
		}
	}
	tell(t, p, due[0].XID, wire.ProcResProp, V2{Done: subset(0)}) // too late
	if n := p.sendLimit(); n != 4096 {
		t.Errorf("limit %d", n)
	}
}

// TestPropsReceiveLimit: the peer is taken to know our receive size when ours has
// been sent and it has shown that it reads such messages.
func TestPropsReceiveLimit(t *testing.T) {
	p := newProps(4, 65536, 65536, wire.BackwardNone)
	want := func(n int) {
		t.Helper()
		if got := p.receiveLimit(); got != n {
			t.Errorf("limit %d, want %d", got, n)
		}
	}
	want(4096)
	tell(t, p, 1, wire.ProcUpdProp, V2{Props: propSet(prop(wire.PropReceiveSize, 65536))})
	p.begin(0)
	want(4096)
	tell(t, p, 1, wire.ProcConnProp, introduction(65536, 1))
	want(65536)
	for i := range 3 {
		p.post(i)
	}
	tell(t, p, 2, wire.ProcReqProp, V2{Props: propSet(prop(wire.PropReceiveSize, 8192))})
	want(8192)
	if n := p.post(3); n != 8192 {
		t.Errorf("posts %d bytes", n)
	}
	tell(t, p, 3, wire.ProcReqProp, V2{Props: propSet(prop(wire.PropReceiveSize, 16384))})
	want(8192)
	p.took(0) // of 65536 bytes
	if n := p.post(0); n != 16384 {
		t.Errorf("posts %d bytes", n)
	}
	if _, ok := nextOf(p); ok {
		t.Error("raise announced while a short receive is posted")
	}
	p.took(3)
	h, _ := nextOf(p)
	wantProps(t, &h, wire.ProcUpdProp, "1=16384")
	want(8192) // not sent yet
	p.sent(h.message())
	want(16384)
}

// TestExchangesProperties has a requester and a scripted responder exchange
// properties while calls go on.
func TestExchangesProperties(t *testing.T) {
	const large = 16 << 10
	got := make(chan Header, 16)
	addr := startPeer(t, nil, func(p *peer) error {
		conn, err := p.control(wire.ProcConnProp)
		if err != nil {
			return err
		}
		got <- conn.Header
		if err := p.props(500, wire.ProcConnProp, introduction(large, 2)); err != nil {
			return err
		}
		for _, ask := range []V2{
			{Props: propSet(prop(wire.PropReceiveSize, 8192))},
			{Props: propSet(prop(wire.PropReceiveSize, large), prop(1000, 3))},
		} {
			if err := p.props(501, wire.ProcReqProp, ask); err != nil {
				return err
			}
			res, err := p.control(wire.ProcResProp)
			if err != nil {
				return err
			}
			got <- res.Header
		}
		upd, err := p.control(wire.ProcUpdProp)
		if err != nil {
			return err
		}
		got <- upd.Header
		// What is not known, or not right, is answered.
		for _, b := range [][]byte{
			xdrWords(600, 2, 1, uint32(wire.ProcOptional), uint32(wire.DirCall), 99, 0),
			xdrWords(601, 2, 1, uint32(wire.ProcReqProp), 1, uint32(wire.PropBackward), 4, 9),
			xdrWords(602, 2, 1, uint32(wire.ProcConnProp), 1, 1, 400),
		} {
			if err := p.send(b); err != nil {
				return err
			}
			e, err := p.control(wire.ProcError)
			if err != nil {
				return err
			}
			got <- e.Header
		}
		// Replies are not answered, nor errors.
		for _, b := range [][]byte{
			xdrWords(700, 2, 1, uint32(wire.ProcOptional), uint32(wire.DirReply), 99, 0),
			xdrWords(701, 2, 1, uint32(wire.ProcError), 77),
			xdrWords(702, 2, 1, uint32(wire.ProcResProp), 9),
			xdrWords(conn.XID, 2, 1, uint32(wire.ProcError), uint32(wire.ErrInvalOption)),
		} {
			if err := p.send(b); err != nil {
				return err
			}
		}
		return answerAll(1)(p)
	})
	r := dialPeer(t, addr, func(cfg *DialerConfig) {
		cfg.TryVersion2, cfg.InlineSend, cfg.InlineRecv = true, large, large
	})
	next := func() Header {
		t.Helper()
		for {
			select {
			case h := <-got:
				return h
			case <-r.done:
				t.Fatalf("link ended: %v", r.Err())
			default: // calls carry the receives forward
				if err := r.do(within(t, patience), pingCall(nil)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	h := next()
	wantProps(t, &h, wire.ProcConnProp, "1=16384", "2=0")
	if h = next(); !h.Done.Has(0) {
		t.Errorf("lowering: %+v", h)
	}
	h = next()
	wantProps(t, &h, wire.ProcResProp, "1=8192")
	if h.Done.Has(0) || h.Rejected.Has(0) || !h.Rejected.Has(1) {
		t.Errorf("raising: %+v", h)
	}
	h = next()
	wantProps(t, &h, wire.ProcUpdProp, "1=16384")
	for i, want := range []wire.ErrCode{wire.ErrInvalOption, wire.ErrBadXDR, wire.ErrBadXDR} {
		if h = next(); h.XID != uint32(600+i) || h.Err != want {
			t.Errorf("got %+v, want error %d", h, want)
		}
	}
	terms := r.d.Stats().Terms
	if want := (transport.Terms{Version: 2, InlineSend: large, InlineRecv: large, ReceiveSize: large, PeerReceiveSize: large,
		Backward: "none", PeerBackward: "general"}); terms != want {
		t.Errorf("terms %+v, want %+v", terms, want)
	}
	// A call of that size goes inline.
	long := pingCall(nil)
	long.Args, long.ReplyMax = longArgs(3500), 15000
	long.Result = func(r *xdr.Reader) error { r.Uint32(); return nil }
	before := r.d.Stats().InlineCalls
	if err := r.do(within(t, patience), long); err != nil {
		t.Fatal(err)
	}
	if s := r.d.Stats(); s.InlineCalls != before+1 || s.ReplyChunks != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPropertyFloodEndsLink has a peer make requests without end, whose answers
// it does not take.
func TestPropertyFloodEndsLink(t *testing.T) {
	addr := startPeer(t, nil, func(p *peer) error {
		if _, err := p.control(wire.ProcConnProp); err != nil {
			return err
		}
		for {
			if err := p.props(1, wire.ProcReqProp, V2{}); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, try2)
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	<-r.done
	// Or by the peer's having no receive for an answer.
	if err := r.Err(); !errors.Is(err, errPropsFlood) && !errors.As(err, new(*verbs.ConnError)) {
		t.Errorf("link ended with %v", err)
	}
}

// TestPropsReplyLimit: replies of more than the default size are counted on when
// both ends have announced their properties, in either order.
func TestPropsReplyLimit(t *testing.T) {
	for _, peerFirst := range []bool{true, false} {
		p := newProps(4, 16384, 16384, wire.BackwardNone)
		news := func() { tell(t, p, 1, wire.ProcConnProp, introduction(16384, 1)) }
		ours := func() {
			p.begin(77)
			h, _ := nextOf(p)
			p.sent(h.message())
		}
		first, second := ours, news
		if peerFirst {
			first, second = news, ours
		}
		for i, want := range []int{wire.DefaultInline2, wire.DefaultInline2, 16384} {
			if n := p.receiveLimit(); n != want {
				t.Errorf("peer first %v: limit %d after %d introductions, want %d", peerFirst, n, i, want)
			}
			if i == 0 {
				first()
			} else {
				second()
			}
		}
	}
}

// TestOptionalReplyIsNotAnswered: errors answer calls only.
func TestOptionalReplyIsNotAnswered(t *testing.T) {
	answered := make(chan Header, 1)
	r := dialPeer(t, startPeer(t, nil, func(p *peer) error {
		if _, err := p.control(wire.ProcConnProp); err != nil {
			return err
		}
		for xid, d := range []wire.Direction{wire.DirReply, wire.DirCall} {
			if err := p.props(uint32(xid), wire.ProcOptional, V2{Direction: d, OptType: 99}); err != nil {
				return err
			}
		}
		q, err := p.control(wire.ProcError)
		if err != nil {
			return err
		}
		answered <- q.Header
		return answerAll(5)(p)
	}), try2)
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	if h := <-answered; h.XID != 1 || h.Err != wire.ErrInvalOption {
		t.Errorf("answered: %+v", h)
	}
}
