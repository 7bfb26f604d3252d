//go:build cgo && linux

package ibv

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
)

// TestSendRing has an adapter complete Reads late, as siw does: completions come
// out in the order of posting, once each, and every place is free in the end.
func TestSendRing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const depth = 16
	var ring sendRing
	ring.init(depth)
	done := completions{ring: make([]verbs.Completion, depth)}
	var want, got []uint64
	var posted []uint64 // signaled and not complete
	for step := range uint64(20000) {
		switch r.IntN(3) {
		case 0:
			if ring.room() == 0 {
				break
			}
			e := sendEntry{id: step, op: verbs.OpWrite, visible: r.IntN(3) == 0, local: r.IntN(8) == 0}
			if e.visible {
				want = append(want, step)
			}
			if !e.local {
				ring.quiet++
				if e.signaled = e.visible || ring.quiet >= ring.stride; e.signaled {
					ring.quiet = 0
				}
			}
			if i := ring.push(e); e.signaled {
				posted = append(posted, i)
			}
		case 1:
			if len(posted) == 0 {
				break
			}
			k := r.IntN(min(3, len(posted)))
			ring.complete(posted[k])
			posted = append(posted[:k], posted[k+1:]...)
		case 2:
			if done.head != done.tail {
				got = append(got, done.ring[done.head%depth].ID)
				done.head++
				ring.unreaped--
			}
		}
		ring.deliver(&done)
		if int(done.tail-done.head) != ring.unreaped || ring.room() < 0 {
			t.Fatalf("step %d: %d completions, %d counted, room %d", step, done.tail-done.head, ring.unreaped, ring.room())
		}
	}
	for _, i := range posted {
		ring.complete(i)
	}
	ring.deliver(&done)
	for ; done.head != done.tail; done.head++ {
		got = append(got, done.ring[done.head%depth].ID)
		ring.unreaped--
	}
	if len(got) != len(want) {
		t.Fatalf("%d completions of %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("completion %d is of request %d, want %d", i, got[i], want[i])
		}
	}
	// What follows the last signaled one is known to be done with the next.
	for ring.quiet != 0 {
		ring.quiet++
		e := sendEntry{signaled: ring.quiet >= ring.stride}
		i := ring.push(e)
		if e.signaled {
			ring.quiet = 0
			ring.complete(i)
			ring.deliver(&done)
		}
	}
	if ring.room() != depth {
		t.Errorf("room for %d of %d when all is done", ring.room(), depth)
	}
}

func TestSendRingIgnoresForeignCompletions(t *testing.T) {
	var ring sendRing
	ring.init(4)
	done := completions{ring: make([]verbs.Completion, 4)}
	for _, i := range []uint64{0, 1, 1 << 40} {
		ring.complete(i)
	}
	ring.deliver(&done)
	if ring.room() != 4 || done.tail != 0 {
		t.Errorf("room %d, %d completions of nothing posted", ring.room(), done.tail)
	}
}

// TestLocalCompletionWaits: a request that needs no adapter does not complete
// before the requests ahead of it are known to be done.
func TestLocalCompletionWaits(t *testing.T) {
	events, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	c := &conn{dom: &domain{}}
	c.cq.events = &poller{file: events}
	c.sends.init(16)
	c.done.ring = make([]verbs.Completion, 16)
	quiet, local := verbs.SendWR{Op: verbs.OpSend}, verbs.SendWR{ID: 7, Op: verbs.OpLocalInvalidate, Signaled: true}
	taken, n, err := c.encode([]verbs.SendWR{quiet, local}, false)
	if taken != 2 || n != 2 || err != nil || c.done.tail != 0 {
		t.Fatalf("behind a quiet Send: %d taken, %d for the adapter, %d done, %v", taken, n, c.done.tail, err)
	}
	c.sends.complete(1)
	c.sends.deliver(&c.done)
	taken, n, err = c.encode([]verbs.SendWR{local}, false)
	if taken != 1 || n != 0 || err != nil || c.done.tail != 2 {
		t.Fatalf("behind nothing: %d taken, %d for the adapter, %d done, %v", taken, n, c.done.tail, err)
	}
	for i := range 2 {
		if got := c.done.ring[i]; got.ID != 7 || got.Op != verbs.OpLocalInvalidate {
			t.Errorf("completion %d is %+v", i, got)
		}
	}
}

func TestWindowKeys(t *testing.T) {
	w := &window{c: &conn{}, mw: 1, key: 0x1234_56ff}
	bound := w.key
	for range 600 {
		before := w.next
		reserved := w.reserved
		k := w.Next(noSegment)
		if k == bound || reserved && k == before || k>>8 != bound>>8 {
			t.Fatalf("key %#x after %#x of a window bound under %#x", k, before, bound)
		}
	}
}
