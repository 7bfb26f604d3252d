package longbuf

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

func testPool(t *testing.T, units int) *Pool {
	t.Helper()
	a, err := mem.NewArena(units * Unit)
	if err != nil {
		t.Fatal(err)
	}
	p := New(a)
	t.Cleanup(func() {
		if st := p.Stats(); st.Used != 0 || st.Leases != 0 || len(p.free) != 1 || p.free[0].Len != st.Size || len(p.queue) != 0 {
			t.Errorf("at the end %+v, free %v, %d waiting", st, p.free, len(p.queue))
		}
		if err := p.Arena.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func mustLease(t *testing.T, p *Pool, a *Account, n int) mem.Seg {
	t.Helper()
	s, err := p.Lease(t.Context(), nil, a, n)
	if err != nil {
		t.Fatal(err)
	}
	if s.Len != RoundUp(n, Unit) || s.Off%Unit != 0 {
		t.Fatalf("lease of %d bytes is [%d,+%d)", n, s.Off, s.Len)
	}
	return s
}

// waiting starts a lease that has to wait and returns once it does.
func waiting(t *testing.T, ctx context.Context, p *Pool, a *Account, n int) <-chan mem.Seg {
	t.Helper()
	before := p.Stats().Waits
	got := make(chan mem.Seg, 1)
	go func() {
		defer close(got)
		if s, err := p.Lease(ctx, nil, a, n); err == nil {
			got <- s
		}
	}()
	for p.Stats().Waits == before {
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
	a := &Account{Limit: 4 * Unit}
	y, x := mustLease(t, p, a, 1), mustLease(t, p, a, 2*Unit)
	large := waiting(t, t.Context(), p, a, 3*Unit)
	small := waiting(t, t.Context(), p, a, 1) // there is room, but not before its turn
	if _, err := p.Try(a, 1); !errors.Is(err, ErrNone) {
		t.Errorf("try overtook: %v", err)
	}
	p.Release(a, x)
	s := <-large
	p.Release(a, y)
	p.Release(a, <-small)
	p.Release(a, s)
}

func TestPoolGreedyClientDoesNotHoldUpOthers(t *testing.T) {
	p := testPool(t, 8)
	a, b := &Account{Limit: 4 * Unit}, &Account{Limit: 4 * Unit}
	x := mustLease(t, p, a, 4*Unit)
	more := waiting(t, t.Context(), p, a, 1)
	y, err := p.Lease(t.Context(), nil, b, 4*Unit)
	if err != nil {
		t.Fatal(err)
	}
	p.Release(a, x)
	p.Release(a, <-more)
	p.Release(b, y)
	if a.peak > a.Limit || b.peak > b.Limit {
		t.Errorf("accounts %+v %+v", a, b)
	}
}

func TestPoolWaitEndsWithContext(t *testing.T) {
	p := testPool(t, 2)
	a := &Account{Limit: 2 * Unit}
	x := mustLease(t, p, a, 1)
	ctx, cancel := context.WithCancel(t.Context())
	large := waiting(t, ctx, p, a, 2*Unit)
	small := waiting(t, t.Context(), p, a, 1)
	cancel()
	if s, ok := <-large; ok {
		t.Errorf("got %v", s)
	}
	p.Release(a, <-small) // which had waited for its turn only
	p.Release(a, x)
}

func TestPoolRefusesWhatCannotBe(t *testing.T) {
	p := testPool(t, 2)
	a, b := &Account{Limit: Unit}, &Account{Limit: 4 * Unit}
	if _, err := p.Lease(t.Context(), nil, a, Unit+1); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := p.Lease(t.Context(), nil, b, 3*Unit); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := p.Try(a, Unit+1); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestPoolSecondReleasePanics(t *testing.T) {
	p := testPool(t, 2)
	a := &Account{Limit: 2 * Unit}
	s := mustLease(t, p, a, 1)
	p.Release(a, s)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p.Release(a, s)
}

// Many clients lease, write and release; no byte is lent twice.
func TestPoolConcurrentLeasesAreDisjoint(t *testing.T) {
	p := testPool(t, 16)
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			a := &Account{Limit: 6 * Unit}
			rng := rand.New(rand.NewPCG(1, uint64(id)))
			for range 300 {
				s, err := p.Lease(t.Context(), nil, a, 1+rng.IntN(6*Unit))
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
				p.Release(a, s)
			}
		})
	}
	wg.Wait()
	if st := p.Stats(); st.Peak > st.Size {
		t.Errorf("%+v", st)
	}
}

// A reply may have a read chunk of no bytes, for which nothing is lent.
func TestPoolLendsNothing(t *testing.T) {
	p := testPool(t, 8)
	a := &Account{Limit: 8 * Unit}
	lend := func(n int) mem.Seg {
		s, err := p.Lease(t.Context(), nil, a, n)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none := lend(0)
	all := lend(8 * Unit)
	if s := lend(0); s.Arena != nil || none.Arena != nil {
		t.Error("something lent for nothing")
	}
	p.Release(a, all)
}

// TestPoolFillsAndMerges gives back in any order what filled the pool.
func TestPoolFillsAndMerges(t *testing.T) {
	p := testPool(t, 8)
	a := &Account{Limit: 8 * Unit}
	var segs []mem.Seg
	for range 8 {
		segs = append(segs, mustLease(t, p, a, Unit-1))
	}
	if len(p.free) != 0 {
		t.Fatalf("free: %v", p.free)
	}
	for _, i := range []int{1, 3, 2, 7, 0, 6, 4, 5} {
		p.Release(a, segs[i])
	}
	if len(p.free) != 1 || p.free[0].Len != 8*Unit {
		t.Errorf("free: %v", p.free)
	}
	if _, err := p.Lease(t.Context(), nil, a, 8*Unit+1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestPoolWaitEndsWithItsUser(t *testing.T) {
	p := testPool(t, 4)
	a := &Account{Limit: 4 * Unit}
	held := mustLease(t, p, a, 4*Unit)
	ended, got := make(chan struct{}), make(chan error, 1)
	before := p.Stats().Waits
	go func() {
		_, err := p.Lease(t.Context(), ended, a, 1)
		got <- err
	}()
	for p.Stats().Waits == before {
		runtime.Gosched()
	}
	close(ended)
	if err := <-got; !errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
	p.Release(a, held)
}

// TestPoolNeverLendsTwice has many goroutines mark what they hold of one account, some of which give up at once.
func TestPoolNeverLendsTwice(t *testing.T) {
	p := testPool(t, 16)
	acct := &Account{Limit: 16 * Unit}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 300 {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(4) == 0 {
					cancel()
				}
				s, err := p.Lease(ctx, nil, acct, 1+rng.IntN(6*Unit))
				cancel()
				if err != nil {
					continue
				}
				b := s.Bytes()
				for i := range b {
					b[i] = byte(g)
				}
				for i := range b {
					if b[i] != byte(g) {
						t.Errorf("byte %d is another's", i)
						break
					}
				}
				p.Release(acct, s)
			}
		})
	}
	all.Wait()
}
