package rpcrdma

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

func testPool(t *testing.T, units int) *serverPool {
	t.Helper()
	p, err := newServerPool(units * poolUnit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if st := p.snapshot(); st.Used != 0 || st.Leases != 0 || len(p.free) != 1 || p.free[0].Len != st.Size || len(p.queue) != 0 {
			t.Errorf("at the end %+v, free %v, %d waiting", st, p.free, len(p.queue))
		}
		if err := p.arena.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func mustLease(t *testing.T, p *serverPool, a *poolAccount, n int) mem.Seg {
	t.Helper()
	s, err := p.lease(t.Context(), a, n)
	if err != nil {
		t.Fatal(err)
	}
	if s.Len != roundUp(n, poolUnit) || s.Off%poolUnit != 0 {
		t.Fatalf("lease of %d bytes is [%d,+%d)", n, s.Off, s.Len)
	}
	return s
}

// waiting starts a lease that has to wait and returns once it does.
func waiting(t *testing.T, ctx context.Context, p *serverPool, a *poolAccount, n int) <-chan mem.Seg {
	t.Helper()
	before := p.snapshot().Waits
	got := make(chan mem.Seg, 1)
	go func() {
		defer close(got)
		if s, err := p.lease(ctx, a, n); err == nil {
			got <- s
		}
	}()
	for p.snapshot().Waits == before {
		select {
		case s := <-got:
			t.Fatalf("lease of %d bytes did not wait: %v", n, s)
		default:
		}
	}
	return got
}

func TestPoolLargeLeaseIsNotOvertaken(t *testing.T) {
	p := testPool(t, 4)
	a := &poolAccount{limit: 4 * poolUnit}
	y, x := mustLease(t, p, a, 1), mustLease(t, p, a, 2*poolUnit)
	large := waiting(t, t.Context(), p, a, 3*poolUnit)
	small := waiting(t, t.Context(), p, a, 1) // there is room, but not before its turn
	if _, err := p.try(a, 1); !errors.Is(err, errNoMemory) {
		t.Errorf("try overtook: %v", err)
	}
	p.release(a, x)
	s := <-large
	p.release(a, y)
	p.release(a, <-small)
	p.release(a, s)
}

func TestPoolGreedyClientDoesNotHoldUpOthers(t *testing.T) {
	p := testPool(t, 8)
	a, b := &poolAccount{limit: 4 * poolUnit}, &poolAccount{limit: 4 * poolUnit}
	x := mustLease(t, p, a, 4*poolUnit)
	more := waiting(t, t.Context(), p, a, 1)
	y, err := p.lease(t.Context(), b, 4*poolUnit)
	if err != nil {
		t.Fatal(err)
	}
	p.release(a, x)
	p.release(a, <-more)
	p.release(b, y)
	if a.peak > a.limit || b.peak > b.limit {
		t.Errorf("accounts %+v %+v", a, b)
	}
}

func TestPoolWaitEndsWithContext(t *testing.T) {
	p := testPool(t, 2)
	a := &poolAccount{limit: 2 * poolUnit}
	x := mustLease(t, p, a, 1)
	ctx, cancel := context.WithCancel(t.Context())
	large := waiting(t, ctx, p, a, 2*poolUnit)
	small := waiting(t, t.Context(), p, a, 1)
	cancel()
	if s, ok := <-large; ok {
		t.Errorf("got %v", s)
	}
	p.release(a, <-small) // which had waited for its turn only
	p.release(a, x)
}

func TestPoolRefusesWhatCannotBe(t *testing.T) {
	p := testPool(t, 2)
	a, b := &poolAccount{limit: poolUnit}, &poolAccount{limit: 4 * poolUnit}
	if _, err := p.lease(t.Context(), a, poolUnit+1); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
	if _, err := p.lease(t.Context(), b, 3*poolUnit); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
	if _, err := p.try(a, poolUnit+1); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}

func TestPoolSecondReleasePanics(t *testing.T) {
	p := testPool(t, 2)
	a := &poolAccount{limit: 2 * poolUnit}
	s := mustLease(t, p, a, 1)
	p.release(a, s)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p.release(a, s)
}

// Many clients lease, write and release; no byte is lent twice.
func TestPoolConcurrentLeasesAreDisjoint(t *testing.T) {
	p := testPool(t, 16)
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			a := &poolAccount{limit: 6 * poolUnit}
			rng := rand.New(rand.NewPCG(1, uint64(id)))
			for range 300 {
				s, err := p.lease(t.Context(), a, 1+rng.IntN(6*poolUnit))
				if err != nil {
					t.Error(err)
					return
				}
				b := s.Bytes()
				for i := 0; i < len(b); i += 64 {
					b[i] = byte(id + 1)
				}
				for i := 0; i < len(b); i += 64 {
					if b[i] != byte(id+1) {
						t.Errorf("byte %d of %d's lease is %d", i, id+1, b[i])
					}
				}
				p.release(a, s)
			}
		})
	}
	wg.Wait()
	if st := p.snapshot(); st.Peak > st.Size {
		t.Errorf("%+v", st)
	}
}
