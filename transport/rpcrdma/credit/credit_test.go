package credit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestOverdueLeaveCredits: overdue calls get nothing before the first grant, then
// all but a quarter of it, and of a grant of one what live calls leave.
func TestOverdueLeaveCredits(t *testing.T) {
	const asked = 40
	for grant, want := range map[uint32]int{1: 1, 2: 1, 3: 2, 8: 6, 32: 24} {
		c := New(asked)
		got := make(chan error, asked)
		ctx, cancel := context.WithCancel(context.Background())
		for range asked {
			go func() { got <- c.AcquireOverdue(ctx, nil) }()
		}
		untilTrue(t, &c.mu, func() bool { return len(c.waiting[Overdue]) == asked })
		c.Grant(grant)
		for range want {
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
		for range int(grant) - want {
			if _, err := c.Acquire(context.Background(), nil); err != nil {
				t.Fatalf("grant %d: a live call: %v", grant, err)
			}
		}
		if len(got) > 0 || c.used != int(grant) || c.held[Overdue] != want {
			t.Errorf("grant %d: %d credits used, %v of each Share, want %d overdue", grant, c.used, c.held, want)
		}
		cancel()
		for range asked - want {
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	}
}

// TestTurns: of those who wait, live calls come first, but for one overdue one.
func TestTurns(t *testing.T) {
	c := New(8)
	if _, err := c.Acquire(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	c.Grant(2)
	if _, err := c.Acquire(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	order := make(chan Share, 6)
	wait := func(s Share) {
		c.mu.Lock()
		if err := c.wait(context.Background(), nil, s); err != nil {
			t.Error(err)
		}
		order <- s
	}
	for _, s := range []Share{Overdue, Live, Overdue, Live} {
		c.mu.Lock()
		before := len(c.waiting[Live]) + len(c.waiting[Overdue])
		c.mu.Unlock()
		go wait(s)
		untilTrue(t, &c.mu, func() bool { return len(c.waiting[Live])+len(c.waiting[Overdue]) == before+1 })
	}
	held := Live
	for i, want := range []Share{Overdue, Live, Live, Overdue} {
		if i == 3 {
			held = Overdue // all others are Live
		}
		c.Release(held)
		if got := <-order; got != want {
			t.Errorf("turn %d: Share %d, want %d", i, got, want)
		}
	}
}

// TestClogged: calls given up may hold all credits as long as nobody else wants
// one; then the link must go, at the very moment.
func TestClogged(t *testing.T) {
	for _, grant := range []uint32{1, 2, 8} {
		c := New(8)
		c.Grant(grant)
		for range grant {
			if _, err := c.Acquire(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range grant {
			if c.Abandon(Live) {
				t.Error("clogged, and nobody waits")
			}
		}
		if _, err := c.Acquire(context.Background(), nil); !errors.Is(err, ErrClogged) {
			t.Errorf("grant %d: %v", grant, err)
		}
		// A reply to one of them makes the credit free, as ever.
		c.Release(Abandoned)
		if _, err := c.Acquire(context.Background(), nil); err != nil {
			t.Error(err)
		}
		if got := c.Abandon(Live); got {
			t.Error("clogged, and nobody waits")
		}
	}
	// One waits already when the last of them is given up.
	c := New(8)
	c.Grant(8)
	for range 8 {
		if _, err := c.Acquire(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	dead, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.Acquire(context.Background(), dead)
		done <- err
	}()
	untilTrue(t, &c.mu, func() bool { return len(c.waiting[Live]) == 1 })
	for i := range 7 {
		if got := c.Abandon(Live); got != (i == 6) {
			t.Errorf("%d given up: clogged %v", i+1, got)
		}
	}
	close(dead)
	if err := <-done; !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

// untilTrue returns when cond, which a running goroutine is about to make true, is.
func untilTrue(t *testing.T, mu *sync.Mutex, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
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

func TestCreditsAreFirstComeFirstServed(t *testing.T) {
	c := New(4)
	if waited, err := c.Acquire(context.Background(), nil); waited || err != nil {
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
			_, err := c.Acquire(use, nil)
			if (err != nil) != (i == 1) {
				t.Errorf("waiter %d: %v", i, err)
			}
			order <- i
		}()
		untilTrue(t, &c.mu, func() bool { return len(c.waiting[Live]) == i+1 })
	}
	cancel()
	if got := <-order; got != 1 {
		t.Errorf("%d came first", got)
	}
	for _, want := range []int{0, 2} {
		c.Release(Live)
		if got := <-order; got != want {
			t.Errorf("%d came, want %d", got, want)
		}
	}
	for _, g := range []struct {
		grant uint32
		limit int
	}{{3, 3}, {0, 1}, {5, 4}, {0xffffffff, 4}} {
		if limit, _ := c.Grant(g.grant); limit != g.limit {
			t.Errorf("grant %d: limit %d", g.grant, limit)
		}
	}
	dead := make(chan struct{})
	close(dead)
	c.Grant(1)
	if _, err := c.Acquire(context.Background(), dead); !errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
	if c.used != 1 {
		t.Errorf("%d credits used", c.used)
	}
}

// TestCreditHandedOverToOneWhoLeaves gives up waiting just as a credit comes.
func TestCreditHandedOverToOneWhoLeaves(t *testing.T) {
	c := New(1)
	for range 500 {
		if _, err := c.Acquire(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, nil)
			done <- err
		}()
		go cancel()
		c.Release(Live)
		if <-done == nil {
			c.Release(Live)
		}
		if c.used != 0 {
			t.Fatalf("%d credits used", c.used)
		}
	}
}

// TestCreditsWithinTheGrant takes all credits there are under each grant, and one
// more, which must be waited for; also while more are held than a new grant allows.
func TestCreditsWithinTheGrant(t *testing.T) {
	c := New(8)
	over, cancel := context.WithCancel(context.Background())
	cancel() // of no matter to who need not wait
	held := 0
	for _, grant := range []uint32{1, 3, 8, 100, 2, 0, 5} {
		limit, _ := c.Grant(grant)
		for held < limit {
			if _, err := c.Acquire(over, nil); err != nil {
				t.Fatalf("%d credits held of %d: %v", held, limit, err)
			}
			held++
		}
		for range 2 {
			if _, err := c.Acquire(over, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("%d credits held of %d, and another was there: %v", held, limit, err)
			}
		}
		if held > limit {
			c.Release(Live)
			held--
		}
	}
}
