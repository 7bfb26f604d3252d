package rc

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

const (
	arenaSize = 4 << 20
	arenaBase = 0x7000_0000_0000
)

// side is one end: a queue pair and its memory.
type side struct {
	t     testing.TB
	q     *QP
	arena *mem.Arena
	wc    []verbs.Completion
}

func newArena(t testing.TB, n int) *mem.Arena {
	a, err := mem.NewArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func newSide(t testing.TB, sends, recvs int) *side {
	return newSideOn(t, newArena(t, arenaSize), sends, recvs)
}

func newSideOn(t testing.TB, a *mem.Arena, sends, recvs int) *side {
	s := &side{t: t, arena: a, wc: make([]verbs.Completion, 16)}
	s.q = New(Config{SendQueue: sends, RecvQueue: recvs, Address: func(g mem.Seg) (uint64, bool) {
		if g.Len == 0 {
			return 0, true
		}
		if g.Arena != a || g.Off < 0 || g.Len < 0 || g.Off > a.Len() || g.Len > a.Len()-g.Off {
			return 0, false
		}
		return arenaBase + uint64(g.Off), true
	}})
	return s
}

func (s *side) post(wr verbs.SendWR) {
	s.t.Helper()
	if err := s.q.PostSend(&wr, nil); err != nil {
		s.t.Fatalf("post: %v", err)
	}
}

func (s *side) recv(id uint64, g mem.Seg) {
	s.t.Helper()
	if err := s.q.PostRecv(&verbs.RecvWR{ID: id, Buf: g}); err != nil {
		s.t.Fatalf("post receive: %v", err)
	}
}

// bind binds a window and returns what a peer needs of it.
func (s *side) bind(g mem.Seg, a verbs.Access) (key uint32, va uint64) {
	s.t.Helper()
	w, err := s.q.NewWindow()
	if err != nil {
		s.t.Fatal(err)
	}
	key = w.Next()
	if err := s.q.PostSend(&verbs.SendWR{Op: verbs.OpBind, Local: mem.Vec{g}, Access: a}, w); err != nil {
		s.t.Fatal(err)
	}
	va, _ = s.q.config.Address(g)
	return key, va
}

func (s *side) reap() []verbs.Completion { return s.wc[:s.q.Reap(s.wc)] }

func pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*3 ^ byte(i>>16)*5 ^ byte(seed*7)
	}
}

// connect makes a and b each other's peers.
func connect(a, b *side, p Peer) {
	pa, pb := p, p
	pa.QPN, pb.QPN = 0x22, 0x11
	pb.SendPSN, pb.RecvPSN = p.RecvPSN, p.SendPSN
	a.q.Connect(0, pa)
	b.q.Connect(0, pb)
	a.q.Establish()
	b.q.Establish()
}

var plainPeer = Peer{MTU: 256, SendPSN: 0xfffff0, RecvPSN: 0x7ffffe, ReadsIn: 4, ReadsOut: 4, RNRRetries: RNRForever}

// encode is the packet as it travels.
func encode(p *Packet) []byte {
	b := p.Header.Append(nil)
	for _, s := range p.Payload {
		b = append(b, s.Bytes()...)
	}
	return append(b, make([]byte, p.Header.PadCount)...)
}

// flight is a packet on the way.
type flight struct {
	at    time.Duration
	order int
	to    *side
	b     []byte
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	x := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return x
}

// link is the network between two sides, with a clock of its own.
type link struct {
	t                     testing.TB
	r                     *rand.Rand
	drop, double, reorder float64
	delay                 time.Duration

	now   time.Duration
	sides [2]*side
	air   flights
	sent  int
	// tap, when not nil, sees each packet and may drop it.
	tap func(from *side, p *Packet) bool
}

// pump sends what the sides have to send.
func (l *link) pump() {
	var p Packet
	for i, s := range l.sides {
		for s.q.Next(l.now, &p) {
			if under, w := s.q.req.under(), s.q.req.window.limit; under > w {
				l.t.Fatalf("%d packets under way, limit %d", under, w)
			}
			if l.tap != nil && !l.tap(s, &p) {
				continue
			}
			n := 1
			switch x := l.r.Float64(); {
			case x < l.drop:
				n = 0
			case x < l.drop+l.double:
				n = 2
			}
			for range n {
				at := l.now + l.delay
				if l.r.Float64() < l.reorder {
					at += time.Duration(l.r.IntN(int(2*l.delay) + 1))
				}
				l.sent++
				heap.Push(&l.air, flight{at, l.sent, l.sides[1-i], encode(&p)})
			}
		}
	}
}

// step lets time pass until something happens. It is false when nothing will.
func (l *link) step() bool {
	l.pump()
	at := min(l.sides[0].q.Deadline(), l.sides[1].q.Deadline())
	if len(l.air) > 0 {
		at = min(at, l.air[0].at)
	}
	if at == Never {
		return false
	}
	l.now = max(l.now, at)
	for len(l.air) > 0 && l.air[0].at <= l.now {
		f := heap.Pop(&l.air).(flight)
		var h packet.Header
		payload, err := h.Parse(f.b)
		if err != nil {
			l.t.Fatalf("own packet %x: %v", f.b, err)
		}
		f.to.q.Receive(l.now, &h, payload)
	}
	for _, s := range l.sides {
		s.q.Advance(l.now)
	}
	l.pump()
	return true
}

func newLink(t testing.TB, seed uint64, a, b *side) *link {
	return &link{t: t, r: rand.New(rand.NewPCG(seed, 0)), delay: 50 * time.Microsecond, sides: [2]*side{a, b}}
}

// until steps until ok, which must come.
func (l *link) until(what string, ok func() bool) {
	l.t.Helper()
	for range 1 << 20 {
		if ok() {
			return
		}
		if !l.step() {
			break
		}
	}
	l.t.Fatalf("%s does not come: %v, %v", what, l.sides[0].q.Err(), l.sides[1].q.Err())
}
