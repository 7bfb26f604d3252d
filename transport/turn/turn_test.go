package turn

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", 0, "of TestStress; 0 for a new one")

// wire is a connection of these tests: replies, by the number of their caller, come by it in the order of the calls.
type wire struct {
	t       *testing.T
	turn    *Turn
	stop    chan struct{}
	woken   chan struct{} // the leader was interrupted
	replies chan int
	readers atomic.Int32

	mu      sync.Mutex
	callers []caller
}

type caller struct {
	Waiter
	waits, replied bool
}

func newWire(t *testing.T, callers int) *wire {
	w := &wire{t: t, stop: make(chan struct{}), woken: make(chan struct{}, 1), replies: make(chan int, 10*callers), callers: make([]caller, callers)}
	w.turn = New(&w.mu, func() {
		select {
		case w.woken <- struct{}{}:
		default:
		}
	})
	for i := range w.callers {
		w.callers[i].Waiter = NewWaiter()
	}
	return w
}

// receive takes one reply, for whomever, and is false when it was interrupted or the wire has ended.
func (w *wire) receive() (woke, ok bool) {
	if w.readers.Add(1) != 1 {
		w.t.Error("two receive at once")
	}
	defer w.readers.Add(-1)
	select {
	case i := <-w.replies:
		w.mu.Lock()
		defer w.mu.Unlock()
		c := &w.callers[i]
		if c.waits {
			c.replied = true
			w.turn.Unlist(&c.Waiter)
			c.Wake()
		}
		return c.waits, true
	case <-w.woken:
		return false, false
	case <-w.stop:
		return false, false
	}
}

func (w *wire) runAttendant() {
	a := w.turn.Attendant()
	for a.Take(w.stop) {
		for keep := true; keep; {
			woke, ok := w.receive()
			select {
			case <-w.stop:
				a.Leave()
				ok = false
			default:
			}
			if !ok {
				if w.ended() {
					break
				}
				continue // an interrupt that came too late for its leader
			}
			keep = a.Next(woke)
		}
	}
	a.End()
}

func (w *wire) ended() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// call waits as caller i until its reply has come, and reports whether it has.
func (w *wire) call(ctx context.Context, i int) bool {
	c := &w.callers[i]
	w.mu.Lock()
	c.waits, c.replied = true, false
	c.Init(ctx)
	w.mu.Unlock()
	w.replies <- i
	for {
		over := w.rest(ctx, &c.Waiter)
		w.mu.Lock()
		replied := c.replied
		w.turn.Unlist(&c.Waiter)
		if over || replied {
			c.waits = false
		}
		w.mu.Unlock()
		if over || replied {
			w.turn.Leave(&c.Waiter)
			return replied
		}
	}
}

func (w *wire) rest(ctx context.Context, c *Waiter) (over bool) {
	if !w.turn.Follow(c) {
		select {
		case <-c.Woke:
			return false
		case <-ctx.Done():
		case <-w.stop:
		}
		return true
	}
	for {
		select {
		case <-c.Woke:
			return false
		default:
		}
		if _, ok := w.receive(); !ok && (ctx.Err() != nil || w.ended()) {
			return true
		}
	}
}

// start runs the attendant, which ends with the test.
func (w *wire) start() {
	var attendant sync.WaitGroup
	attendant.Go(w.runAttendant)
	w.t.Cleanup(func() {
		close(w.stop)
		attendant.Wait()
	})
}

// TestStress: callers, many of which give up, and goroutines that only expect something: everybody gets what comes, and nobody
// sleeps while something is there. A lost wake-up hangs the test.
func TestStress(t *testing.T) {
	const callers, calls = 12, 400
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed=%d", s)
	w := newWire(t, callers+1)
	w.turn.tick = time.Millisecond
	w.start()
	var all sync.WaitGroup
	var replied, gaveUp atomic.Int32
	for i := range callers {
		rnd := rand.New(rand.NewPCG(s, uint64(i)))
		all.Go(func() {
			for range calls {
				ctx, cancel := context.WithCancel(t.Context())
				if rnd.IntN(4) == 0 {
					go cancel()
				}
				if w.call(ctx, i) {
					replied.Add(1)
				} else {
					gaveUp.Add(1)
				}
				cancel()
			}
		})
	}
	all.Go(func() {
		for range calls {
			got := make(chan struct{})
			w.mu.Lock()
			w.callers[callers].waits, w.callers[callers].replied = true, false
			w.mu.Unlock()
			w.turn.Expect()
			w.replies <- callers
			go func() { // as a handler that waits for a completion
				<-w.callers[callers].Woke
				close(got)
			}()
			<-got
			w.turn.Unexpect()
		}
	})
	all.Wait()
	if n := replied.Load() + gaveUp.Load(); n != callers*calls {
		t.Errorf("%d of %d calls ended", n, callers*calls)
	}
	t.Logf("%d replied, %d given up, the turn was taken %d times", replied.Load(), gaveUp.Load(), w.turn.Led())
}

// TestAlone: who is alone receives everything, without another goroutine.
func TestAlone(t *testing.T) {
	w := newWire(t, 1)
	w.turn.tick = time.Hour
	w.start()
	for i := range 1000 {
		if !w.call(t.Context(), 0) {
			t.Fatalf("call %d: no reply", i)
		}
	}
	if n := w.turn.Led(); n != 1000 {
		t.Errorf("%d of 1000 calls were received by their caller", n)
	}
}

// TestLeaderIsInterrupted: the end of a leader's context is noticed, and a follower goes on.
func TestLeaderIsInterrupted(t *testing.T) {
	w := newWire(t, 2)
	// No reply comes to the first.
	ctx, cancel := context.WithCancel(t.Context())
	led := make(chan bool, 1)
	w.mu.Lock()
	w.callers[0].Init(ctx)
	w.mu.Unlock()
	if !w.turn.take(&w.callers[0].Waiter) {
		t.Fatal("the turn is not free")
	}
	w.start()
	go func() {
		over := w.rest(ctx, &w.callers[0].Waiter)
		w.turn.Leave(&w.callers[0].Waiter)
		led <- over
	}()
	cancel()
	if !<-led {
		t.Error("the leader was not interrupted")
	}
	if !w.call(t.Context(), 1) {
		t.Error("no reply after that")
	}
}
