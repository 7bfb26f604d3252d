package rpcrdma

import (
	"context"
	"errors"
	"testing"
)

// TestOverdueLeaveCredits: overdue calls get nothing before the first grant, then
// all but a quarter of it, and of a grant of one what live calls leave.
func TestOverdueLeaveCredits(t *testing.T) {
	const asked = 40
	for grant, want := range map[uint32]int{1: 1, 2: 1, 3: 2, 8: 6, 32: 24} {
		c := newCredits(asked)
		got := make(chan error, asked)
		ctx, cancel := context.WithCancel(context.Background())
		for range asked {
			go func() { got <- c.acquireOverdue(ctx, nil) }()
		}
		untilTrue(t, &c.mu, func() bool { return len(c.waiting[overdue]) == asked })
		c.grant(grant)
		for range want {
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
		for range int(grant) - want {
			if _, err := c.acquire(context.Background(), nil); err != nil {
				t.Fatalf("grant %d: a live call: %v", grant, err)
			}
		}
		if len(got) > 0 || c.used != int(grant) || c.held[overdue] != want {
			t.Errorf("grant %d: %d credits used, %v of each share, want %d overdue", grant, c.used, c.held, want)
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
	c := newCredits(8)
	if _, err := c.acquire(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	c.grant(2)
	if _, err := c.acquire(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	order := make(chan share, 6)
	wait := func(s share) {
		c.mu.Lock()
		if err := c.wait(context.Background(), nil, s); err != nil {
			t.Error(err)
		}
		order <- s
	}
	for _, s := range []share{overdue, live, overdue, live} {
		c.mu.Lock()
		before := len(c.waiting[live]) + len(c.waiting[overdue])
		c.mu.Unlock()
		go wait(s)
		untilTrue(t, &c.mu, func() bool { return len(c.waiting[live])+len(c.waiting[overdue]) == before+1 })
	}
	held := live
	for i, want := range []share{overdue, live, live, overdue} {
		if i == 3 {
			held = overdue // all others are live
		}
		c.releaseOf(held)
		if got := <-order; got != want {
			t.Errorf("turn %d: share %d, want %d", i, got, want)
		}
	}
}

// TestClogged: calls given up may hold all credits as long as nobody else wants
// one; then the link must go, at the very moment.
func TestClogged(t *testing.T) {
	for _, grant := range []uint32{1, 2, 8} {
		c := newCredits(8)
		c.grant(grant)
		for range grant {
			if _, err := c.acquire(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range grant {
			if c.abandon(live) {
				t.Error("clogged, and nobody waits")
			}
		}
		if _, err := c.acquire(context.Background(), nil); !errors.Is(err, errClogged) {
			t.Errorf("grant %d: %v", grant, err)
		}
		// A reply to one of them makes the credit free, as ever.
		c.releaseOf(abandoned)
		if _, err := c.acquire(context.Background(), nil); err != nil {
			t.Error(err)
		}
		if got := c.abandon(live); got {
			t.Error("clogged, and nobody waits")
		}
	}
	// One waits already when the last of them is given up.
	c := newCredits(8)
	c.grant(8)
	for range 8 {
		if _, err := c.acquire(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	dead, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.acquire(context.Background(), dead)
		done <- err
	}()
	untilTrue(t, &c.mu, func() bool { return len(c.waiting[live]) == 1 })
	for i := range 7 {
		if got := c.abandon(live); got != (i == 6) {
			t.Errorf("%d given up: clogged %v", i+1, got)
		}
	}
	close(dead)
	if err := <-done; !errors.Is(err, errLinkDead) {
		t.Error(err)
	}
}
