package rc

import (
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// TestWindowGrows: a window begins as small as any socket has room for, doubles until it fits the
// socket's buffer, and after a loss shrinks and grows slowly.
func TestWindowGrows(t *testing.T) {
	const mtu = 4096
	full := func(w *window) { w.grow(w.size) }
	for _, x := range []struct{ room, limit int }{
		{0, 32}, {212992, 32}, {425984, 44}, {1 << 20, 110}, {8 << 20, windowMax},
	} {
		w := newWindow(mtu, x.room)
		if w.size != 32 || w.limit != x.limit {
			t.Errorf("%d bytes of room: %d packets at first, %d at most, want 32 and %d", x.room, w.size, w.limit, x.limit)
		}
		for want := 64; w.size < w.limit; want *= 2 {
			if full(&w); w.size != min(want, w.limit) {
				t.Fatalf("%d packets, want %d", w.size, min(want, w.limit))
			}
		}
		full(&w)
		if w.size != w.limit {
			t.Errorf("%d packets, and the limit is %d", w.size, w.limit)
		}
	}
	w := newWindow(mtu, 8<<20)
	for range 4 {
		full(&w)
	}
	w.shrink()
	const less = windowMax * 3 / 4
	for range regrowth {
		if w.size != less {
			t.Fatalf("%d packets after a loss, want %d", w.size, less)
		}
		full(&w)
	}
	if w.size != less+1 {
		t.Errorf("%d packets after %d windows without loss, want %d", w.size, regrowth, less+1)
	}
	for range 20 {
		w.shrink()
	}
	if w.size != windowMin {
		t.Errorf("%d packets after many losses", w.size)
	}
	if full(&w); w.size != windowMin+1 {
		t.Errorf("%d packets after a small window without loss", w.size)
	}
}

// TestShare: the window follows what the connection may count on of the socket's buffer, down to
// what it began with.
func TestShare(t *testing.T) {
	b := established(t)
	w := &b.q.req.window
	b.q.Share(1 << 20)
	if w.size != windowStart || w.limit != windowMax {
		t.Errorf("%d packets of %d", w.size, w.limit)
	}
	w.grow(w.size)
	b.q.Share(100 * (2*mtu + 1280))
	if w.size != 100 || w.limit != 100 {
		t.Errorf("%d packets of %d with room for 100", w.size, w.limit)
	}
	b.q.Share(1)
	if w.size != windowStart || w.limit != windowStart {
		t.Errorf("%d packets of %d without room", w.size, w.limit)
	}
}

// TestRequestsUnderWay: however large the window is, no more small requests are under way than
// before it grew, and what lets further ones follow is asked for.
func TestRequestsUnderWay(t *testing.T) {
	b := &bench{side: newSide(t, 256, 8)}
	p := plainPeer
	p.Room = 8 << 20
	b.q.Connect(0, p)
	b.q.Establish()
	b.q.req.window.grow(windowMax)
	if n := b.q.req.window.size; n < 2*requestsMax {
		t.Fatalf("a window of %d", n)
	}
	for i := range 200 {
		b.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, Local: mem.Vec{b.arena.Seg(0, 8)}})
	}
	for sent := 0; sent < 200; {
		out := b.out()
		asks := 0
		for i, h := range out {
			if h.AckReq {
				asks = i + 1
			}
		}
		sent += len(out)
		if under := b.q.req.under(); under > requestsMax || asks == 0 {
			t.Fatalf("%d requests under way, %d sent", under, sent)
		}
		// The last that was asked for is acknowledged.
		b.answers(0, packet.Acknowledge, synAckUnlimited, b.q.req.under()-len(out)+asks-1, 0)
	}
}
