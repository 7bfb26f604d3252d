package rc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Where the load of the stress test has its memory: messages to send, the source of
// Writes and Reads, where Writes land, where Reads land, and receives.
const (
	areaSize = arenaSize / 8
	srcAt    = 1 * areaSize
	writeAt  = 2 * areaSize
	readAt   = 3 * areaSize
	recvAt   = 4 * areaSize
	slot     = 8 << 10
	slots    = areaSize / slot
	recvs    = 8
)

// load is what one side does: a run of requests of random kind and size, each
// with its own stretch of memory, so that all bytes can be checked in the end.
type load struct {
	s        *side
	r        *rand.Rand
	rkey     uint32 // the peer's landing area
	skey     uint32 // the peer's source area
	inv      []uint32
	want     []mem.Seg // messages that the peer must receive, in order
	posted   int
	finished int
	got      int // messages received
	signaled []uint64
	idle     []uint64 // receives that wait to be posted again
	sizes    [slots]int
	kinds    [slots]verbs.Op
}

func newLoad(s *side, seed uint64) *load {
	l := &load{s: s, r: rand.New(rand.NewPCG(seed, 1))}
	pattern(s.arena.Seg(srcAt, areaSize).Bytes(), int(seed))
	for i := range uint64(recvs) {
		l.repost(i)
	}
	return l
}

func (l *load) repost(id uint64) {
	l.s.recv(id, l.s.arena.Seg(recvAt+int(id)*slot, slot))
}

// more posts a request if there is room.
func (l *load) more() {
	if l.posted == slots || l.posted-l.finished >= 12 {
		return
	}
	i := l.posted
	l.posted++
	n := [...]int{0, 1, 3, 255, 256, 257, 1024, 4096, 5000, slot}[l.r.IntN(10)]
	l.sizes[i] = n
	wr := verbs.SendWR{ID: uint64(i), Signaled: true}
	a := l.s.arena
	switch l.r.IntN(4) {
	case 0, 1:
		wr.Op = verbs.OpSend
		g := a.Seg(i*slot, n)
		pattern(g.Bytes(), i)
		if n >= 8 {
			binary.LittleEndian.PutUint64(g.Bytes(), uint64(i))
		}
		wr.Local = mem.Vec{g.Slice(0, n/3), g.Slice(n/3, n-n/3)}
		if len(l.inv) > 0 && l.r.IntN(2) == 0 {
			wr.Op, wr.RKey = verbs.OpSendInvalidate, l.inv[0]
			l.inv = l.inv[1:]
		}
		l.want = append(l.want, g)
	case 2:
		wr.Op, wr.RKey, wr.Addr = verbs.OpWrite, l.rkey, arenaBase+writeAt+uint64(i*slot)
		wr.Local = mem.Vec{a.Seg(srcAt+i*slot, n)}
	case 3:
		wr.Op, wr.RKey, wr.Addr = verbs.OpRead, l.skey, arenaBase+srcAt+uint64(i*slot)
		wr.Local = mem.Vec{a.Seg(readAt+i*slot, n)}
	}
	l.kinds[i] = wr.Op
	l.s.post(wr)
}

// reap takes completions. Receives are posted again later, now and then late.
func (l *load) reap(other *load) {
	for _, c := range l.s.reap() {
		if c.Op != verbs.OpRecv {
			l.finished++
			l.signaled = append(l.signaled, c.ID)
			continue
		}
		if l.got == len(other.want) {
			l.s.t.Fatal("a message that was not sent")
		}
		want := other.want[l.got]
		if got := l.s.arena.Seg(recvAt+int(c.ID)*slot, c.Len).Bytes(); !bytes.Equal(got, want.Bytes()) {
			l.s.t.Fatalf("message %d is wrong", l.got)
		}
		l.got++
		l.idle = append(l.idle, c.ID)
	}
	if len(l.idle) > 0 && l.r.IntN(8) == 0 {
		l.repost(l.idle[0])
		l.idle = l.idle[1:]
	}
}

func (l *load) check(other *load) {
	t := l.s.t
	for i, id := range l.signaled {
		if id != uint64(i) {
			t.Fatalf("completion %d is of request %d", i, id)
		}
	}
	for i := range slots {
		var got, src mem.Seg
		switch l.kinds[i] {
		case verbs.OpWrite:
			src, got = l.s.arena.Seg(srcAt+i*slot, slot), other.s.arena.Seg(writeAt+i*slot, slot)
		case verbs.OpRead:
			src, got = other.s.arena.Seg(srcAt+i*slot, slot), l.s.arena.Seg(readAt+i*slot, slot)
		default:
			src, got = mem.Seg{}, other.s.arena.Seg(writeAt+i*slot, slot)
		}
		n := min(l.sizes[i], src.Len)
		if !bytes.Equal(got.Bytes()[:n], src.Bytes()[:n]) {
			t.Fatalf("request %d (%d, %d bytes): wrong bytes", i, l.kinds[i], n)
		}
		if !bytes.Equal(got.Bytes()[n:], make([]byte, slot-n)) {
			t.Fatalf("request %d (%d, %d bytes): bytes beyond it were changed", i, l.kinds[i], n)
		}
	}
}

// TestLossyLink runs a random load both ways over links of all kinds.
func TestLossyLink(t *testing.T) {
	for _, x := range []struct {
		name                  string
		drop, double, reorder float64
		delay                 time.Duration
		mtu                   int
	}{
		{name: "clean", mtu: 1024},
		{name: "drop 0.1 %", drop: 0.001, mtu: 1024},
		{name: "drop 1 %", drop: 0.01, mtu: 256},
		{name: "drop 5 %", drop: 0.05, mtu: 1024},
		{name: "drop 20 %", drop: 0.2, mtu: 512},
		{name: "double", double: 0.2, mtu: 512},
		{name: "reorder", reorder: 0.05, mtu: 1024},
		{name: "reorder much", reorder: 0.5, mtu: 4096},
		{name: "all", drop: 0.02, double: 0.02, reorder: 0.02, mtu: 256},
		{name: "all and far", drop: 0.02, double: 0.02, reorder: 0.02, delay: 20 * time.Millisecond, mtu: 2048},
	} {
		t.Run(x.name, func(t *testing.T) {
			for seed := range uint64(8) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					a, b := newSide(t, 64, recvs), newSide(t, 64, recvs)
					p := plainPeer
					p.MTU = x.mtu
					connect(a, b, p)
					l := newLink(t, seed, a, b)
					l.drop, l.double, l.reorder = x.drop, x.double, x.reorder
					l.delay += x.delay
					la, lb := newLoad(a, seed+1), newLoad(b, seed+100)
					for _, z := range [][2]*load{{la, lb}, {lb, la}} {
						me, peer := z[0], z[1]
						peer.rkey, _ = me.s.bind(me.s.arena.Seg(writeAt, areaSize), verbs.RemoteWrite)
						peer.skey, _ = me.s.bind(me.s.arena.Seg(srcAt, areaSize), verbs.RemoteRead)
						for range 20 {
							k, _ := me.s.bind(me.s.arena.Seg(0, 8), verbs.RemoteRead)
							peer.inv = append(peer.inv, k)
						}
					}
					l.until("the end of the load", func() bool {
						for _, z := range [][2]*load{{la, lb}, {lb, la}} {
							z[0].more()
							z[0].reap(z[1])
						}
						return la.finished == slots && lb.finished == slots && la.got == len(lb.want) && lb.got == len(la.want)
					})
					la.check(lb)
					lb.check(la)
					t.Logf("%v, %d packets", l.now, l.sent)
				})
			}
		})
	}
}
