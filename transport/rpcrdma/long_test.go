package rpcrdma

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

func testLongPool(t *testing.T, n int) *longPool {
	t.Helper()
	a, err := mem.NewArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return newLongPool(a)
}

func mustLeaseLong(t *testing.T, p *longPool, n int) mem.Seg {
	t.Helper()
	s, err := p.lease(within(t, patience), nil, n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// untilTrue returns when cond, which a running goroutine is about to make true, is.
func untilTrue(t *testing.T, mu *sync.Mutex, cond func() bool) {
	t.Helper()
	for ctx := within(t, patience); ctx.Err() == nil; {
		mu.Lock()
		ok := cond()
		mu.Unlock()
		if ok {
			return
		}
		runtime.Gosched()
	}
	t.Fatal("it never happened")
}

// A reply may have a read chunk of no bytes, for which nothing is lent.
func TestLongPoolLendsNothing(t *testing.T) {
	p := testLongPool(t, 8*longUnit)
	none := mustLeaseLong(t, p, 0)
	all := mustLeaseLong(t, p, 8*longUnit)
	if s := mustLeaseLong(t, p, 0); s.Arena != nil || none.Arena != nil {
		t.Error("something lent for nothing")
		p.release(none)
	}
	p.release(all)
	if len(p.free) != 1 || p.free[0] != (extent{0, 8 * longUnit}) || p.leased != 0 {
		t.Errorf("free: %v, leased %d", p.free, p.leased)
	}
}

func TestLongPoolFillsAndMerges(t *testing.T) {
	p := testLongPool(t, 8*longUnit)
	var segs []mem.Seg
	for range 8 {
		segs = append(segs, mustLeaseLong(t, p, longUnit-1))
	}
	if len(p.free) != 0 {
		t.Fatalf("free: %v", p.free)
	}
	for _, i := range []int{1, 3, 2, 7, 0, 6, 4, 5} {
		p.release(segs[i])
	}
	if len(p.free) != 1 || p.free[0] != (extent{0, 8 * longUnit}) || p.leased != 0 {
		t.Errorf("free: %v, leased %d", p.free, p.leased)
	}
	var long *tooLongError
	if _, err := p.lease(context.Background(), nil, 8*longUnit+1); !errors.As(err, &long) {
		t.Errorf("got %v", err)
	}
	s := mustLeaseLong(t, p, 1)
	p.release(s)
	defer func() {
		if recover() == nil {
			t.Error("a second release did not panic")
		}
	}()
	p.release(s)
}

// TestLongPoolIsFair has a large request wait, and a small one behind it that
// would fit: it must not overtake, until the large one gives up.
func TestLongPoolIsFair(t *testing.T) {
	p := testLongPool(t, 4*longUnit)
	held := mustLeaseLong(t, p, 2*longUnit)
	ctx, cancel := context.WithCancel(context.Background())
	large, small := make(chan error, 1), make(chan mem.Seg, 1)
	go func() {
		_, err := p.lease(ctx, nil, 3*longUnit)
		large <- err
	}()
	untilTrue(t, &p.mu, func() bool { return len(p.waiters) == 1 })
	go func() {
		s, _ := p.lease(context.Background(), nil, 1)
		small <- s
	}()
	untilTrue(t, &p.mu, func() bool { return len(p.waiters) == 2 })
	cancel()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	p.release(<-small)
	p.release(held)

	held = mustLeaseLong(t, p, 4*longUnit)
	dead := make(chan struct{})
	go func() {
		_, err := p.lease(context.Background(), dead, 1)
		large <- err
	}()
	untilTrue(t, &p.mu, func() bool { return len(p.waiters) == 1 })
	close(dead)
	if err := <-large; !errors.Is(err, errLinkDead) {
		t.Errorf("got %v", err)
	}
	p.release(held)
	if len(p.free) != 1 || p.leased != 0 {
		t.Errorf("free: %v, leased %d", p.free, p.leased)
	}
}

// TestLongPoolNeverLendsTwice has many goroutines mark what they hold.
func TestLongPoolNeverLendsTwice(t *testing.T) {
	p := testLongPool(t, 16*longUnit)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 300 {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(4) == 0 {
					cancel()
				}
				s, err := p.lease(ctx, nil, 1+rng.IntN(6*longUnit))
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
				p.release(s)
			}
		})
	}
	all.Wait()
	if len(p.free) != 1 || p.leased != 0 || len(p.waiters) != 0 {
		t.Errorf("free: %v, leased %d", p.free, p.leased)
	}
}

func TestCreditsAreFirstComeFirstServed(t *testing.T) {
	c := newCredits(4)
	if waited, err := c.acquire(context.Background(), nil); waited || err != nil {
		t.Fatal(waited, err)
	}
	order := make(chan int, 3)
	ctx, cancel := context.WithCancel(context.Background())
	for i := range 3 {
		use := context.Background()
		if i == 1 {
			use = ctx
		}
		go func() {
			_, err := c.acquire(use, nil)
			if (err != nil) != (i == 1) {
				t.Errorf("waiter %d: %v", i, err)
			}
			order <- i
		}()
		untilTrue(t, &c.mu, func() bool { return len(c.waiting[live]) == i+1 })
	}
	cancel()
	if got := <-order; got != 1 {
		t.Errorf("%d came first", got)
	}
	for _, want := range []int{0, 2} {
		c.release()
		if got := <-order; got != want {
			t.Errorf("%d came, want %d", got, want)
		}
	}
	for _, g := range []struct {
		grant uint32
		limit int
	}{{3, 3}, {0, 1}, {5, 4}, {0xffffffff, 4}} {
		if limit, _ := c.grant(g.grant); limit != g.limit {
			t.Errorf("grant %d: limit %d", g.grant, limit)
		}
	}
	dead := make(chan struct{})
	close(dead)
	c.grant(1)
	if _, err := c.acquire(context.Background(), dead); !errors.Is(err, errLinkDead) {
		t.Errorf("got %v", err)
	}
	if c.used != 1 {
		t.Errorf("%d credits used", c.used)
	}
}

// TestCreditHandedOverToOneWhoLeaves gives up waiting just as a credit comes.
func TestCreditHandedOverToOneWhoLeaves(t *testing.T) {
	c := newCredits(1)
	for range 500 {
		if _, err := c.acquire(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := c.acquire(ctx, nil)
			done <- err
		}()
		go cancel()
		c.release()
		if <-done == nil {
			c.release()
		}
		if c.used != 0 {
			t.Fatalf("%d credits used", c.used)
		}
	}
}
