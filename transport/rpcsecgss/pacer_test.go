package rpcsecgss

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// TestPacer: half the window is outstanding at most, and nobody begins while a number a
// quarter of the window behind is not sent.
func TestPacer(t *testing.T) {
	p := newPacer(128)
	never := make(chan struct{})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	full := func(what string) {
		t.Helper()
		if err := p.enter(gone, never); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 64 {
		if err := p.enter(gone, never); err != nil {
			t.Fatal(err)
		}
	}
	full("65 calls outstanding")
	first := p.number()
	for range 31 {
		n := p.number()
		p.sent([]uint32{n})
		p.leave([]uint32{n})
	}
	full("a number 32 behind is not sent")
	in := make(chan error)
	go func() { in <- p.enter(context.Background(), never) }()
	for waits := false; !waits; {
		p.mu.Lock()
		waits = len(p.waiters) == 1
		p.mu.Unlock()
	}
	p.sent([]uint32{first})
	if err := <-in; err != nil {
		t.Error(err)
	}
	done := make(chan struct{})
	close(done)
	for p.inFlight < p.limit {
		if err := p.enter(context.Background(), never); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.enter(context.Background(), done); !errors.Is(err, errLinkEnded) {
		t.Errorf("at the end of the link: %v", err)
	}
}

// TestPacerKeepsWithinWindow has calls take their numbers in any order and be sent in
// another: none is sent 128 below the highest.
func TestPacerKeepsWithinWindow(t *testing.T) {
	p := newPacer(128)
	var mu sync.Mutex
	highest := uint32(0)
	var wg sync.WaitGroup
	for range 200 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 200 {
				if err := p.enter(context.Background(), nil); err != nil {
					t.Error(err)
					return
				}
				n := p.number()
				mu.Lock()
				if highest = max(highest, n); highest-n >= 128 {
					t.Errorf("number %d is sent after %d", n, highest)
				}
				mu.Unlock()
				p.sent([]uint32{n})
				p.leave(nil)
			}
		}()
	}
	wg.Wait()
	if p.used() != 200*200+1 || !p.idle() || len(p.unsent) != 0 {
		t.Errorf("%d numbers, %d in flight, %v not sent", p.used(), p.inFlight, p.unsent)
	}
}
