package rc

import (
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// passage is two sides with a path MTU of 4096 and a way between them that
// takes less.
func passage(t *testing.T, mtu int, drops func(from *side, p *Packet) bool) (a, b *side, l *link) {
	a, b = newSide(t, 64, 64), newSide(t, 64, 64)
	p := plainPeer
	p.MTU = mtu
	connect(a, b, p)
	l = newLink(t, 1, a, b)
	l.tap = func(from *side, p *Packet) bool { return !drops(from, p) }
	for i := range 8 {
		b.recv(uint64(i), b.arena.Seg(i*mtu, mtu))
	}
	a.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{a.arena.Seg(0, 100)}})
	l.until("a small message", func() bool { return len(b.reap()) == 1 })
	return a, b, l
}

func bytesOf(p *Packet) (n int) {
	for _, s := range p.Payload {
		n += s.Len
	}
	return n
}

// TestLargePacketsLost: when only large packets are lost, the connection ends
// within seconds, and both sides know why.
func TestLargePacketsLost(t *testing.T) {
	const n = 64 << 10
	for _, c := range []struct {
		name string
		post func(a, b *side)
		// deaf: the other side has nothing to go by.
		deaf bool
	}{
		{"one SEND", func(a, _ *side) {
			a.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{a.arena.Seg(0, 4000)}})
		}, true},
		{"WRITE and SEND", func(a, b *side) {
			key, va := b.bind(b.arena.Seg(1<<20, n), verbs.RemoteWrite)
			a.post(verbs.SendWR{Op: verbs.OpWrite, Local: mem.Vec{a.arena.Seg(0, n)}, RKey: key, Addr: va})
			a.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{a.arena.Seg(0, 100)}})
		}, false},
		{"READ", func(a, b *side) {
			key, va := b.bind(b.arena.Seg(1<<20, n), verbs.RemoteRead)
			a.post(verbs.SendWR{Op: verbs.OpRead, Signaled: true, Local: mem.Vec{a.arena.Seg(0, n)}, RKey: key, Addr: va})
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, l := passage(t, 4096, func(_ *side, p *Packet) bool { return bytesOf(p) > 1400 })
			start := l.now
			c.post(a, b)
			l.until("the end", func() bool { return a.q.Err() != nil || b.q.Err() != nil })
			if d := l.now - start; d < blockedTime || d > 3*blockedTime {
				t.Errorf("after %v", d)
			}
			for _, s := range []*side{a, b} {
				var large *ErrTooLarge
				if err := s.q.Err(); err != nil && !errors.As(err, &large) {
					t.Errorf("ended by %v", err)
				}
				s.q.Fail(errors.New("the other side has left"))
				if !s.q.Suspect() && (s == a || !c.deaf) {
					t.Error("a side does not suspect large packets")
				}
			}
		})
	}
}

// TestLargePacketsInnocent: who hears nothing at all any more, or saw large
// packets pass, or has the smallest path MTU, does not blame the path MTU; nor
// does heavy loss of all packets alike look like it.
func TestLargePacketsInnocent(t *testing.T) {
	send := func(a *side, n int) {
		a.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{a.arena.Seg(0, n)}})
	}
	for _, c := range []struct {
		name  string
		mtu   int
		drops func(gone bool, p *Packet) bool
		first bool // a large message passes first
	}{
		{"frozen", 4096, func(gone bool, _ *Packet) bool { return gone }, false},
		{"passed before", 4096, func(gone bool, p *Packet) bool { return gone && bytesOf(p) > 1400 }, true},
		{"smallest", 256, func(gone bool, p *Packet) bool { return gone && bytesOf(p) > 200 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone := false
			a, b, l := passage(t, c.mtu, func(_ *side, p *Packet) bool { return c.drops(gone, p) })
			if c.first {
				send(a, c.mtu)
				l.until("a large message", func() bool { return len(b.reap()) == 1 })
			}
			gone = true
			send(a, c.mtu)
			l.until("the end", func() bool { return a.q.Err() != nil })
			if err := a.q.Err(); !errors.Is(err, ErrRetries) || a.q.Suspect() {
				t.Errorf("%v, suspect %v", err, a.q.Suspect())
			}
		})
	}
	t.Run("loss", func(t *testing.T) {
		a, b, l := passage(t, 4096, func(*side, *Packet) bool { return false })
		l.drop = 0.1
		key, va := b.bind(b.arena.Seg(1<<20, 256<<10), verbs.RemoteRead|verbs.RemoteWrite)
		done := 0
		for range 10 {
			a.post(verbs.SendWR{Op: verbs.OpRead, Signaled: true, Local: mem.Vec{a.arena.Seg(1<<20, 256<<10)}, RKey: key, Addr: va})
			a.post(verbs.SendWR{Op: verbs.OpWrite, Signaled: true, Local: mem.Vec{a.arena.Seg(1<<20, 256<<10)}, RKey: key, Addr: va})
			want := done + 2
			l.until("both", func() bool { done += len(a.reap()); return done >= want || a.q.Err() != nil || b.q.Err() != nil })
		}
		if a.q.Err() != nil || b.q.Err() != nil {
			t.Errorf("%v, %v", a.q.Err(), b.q.Err())
		}
	})
}
