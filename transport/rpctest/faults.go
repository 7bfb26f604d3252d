package rpctest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
)

// mixed makes one call of each shape out of a turn, in its own window.
func mixed(ctx context.Context, c transport.Caller, w window, turn uint32) error {
	n := int(turn*7919) % 9000
	switch turn % 5 {
	case 0:
		return put(ctx, c, w, n, 2, turn)
	case 1:
		return get(ctx, c, w, n, n, 2, turn)
	case 2:
		return echo(ctx, c, n, turn)
	case 3:
		return long(ctx, c, n, 10_000, turn)
	default:
		return null(ctx, c)
	}
}

// split cuts the arena into n windows.
func (e *env) split(n int) []window {
	size := 4 * windowSize / n
	all := make([]window, n)
	for i := range all {
		all[i] = window{e.wins[0].a, i * size, size}
	}
	return all
}

// crowd runs f in n goroutines and joins them.
func crowd(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func testConcurrent(e *env) {
	const callers, calls = 64, 10
	wins := e.split(callers)
	crowd(callers, func(i int) {
		for k := range calls {
			e.check(mixed(e.Context(), e.c, wins[i], uint32(i*calls+k)), "caller %d, call %d", i, k)
		}
	})
	if s := e.c.Stats(); s.Calls != callers*calls || s.Replies != callers*calls || s.BadReplies+s.BadXIDs != 0 {
		e.Errorf("%+v", s)
	}
}

// testCancelled cancels a call while the server delays its reply. Once Call has
// returned, nothing may change its memory.
func testCancelled(e *env) {
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	sizes := []int{100, 4 << 10, 64 << 10, 128 << 10}
	wins := e.split(8)
	vecs := make([]transport.Payload, len(sizes))
	var running sync.WaitGroup
	for i, n := range sizes {
		vecs[i] = wins[i].vec(n, 2)
		running.Go(func() {
			err := e.c.Call(ctx, getCall(procHold, vecs[i], n, uint32(n)))
			var te *transport.Error
			if !errors.Is(err, context.Canceled) || !errors.As(err, &te) || te.Fate != transport.Unknown {
				e.Errorf("cancelled with %d bytes to come: %v", n, err)
			}
		})
	}
	for range sizes {
		<-e.p.arrived
	}
	cancel()
	running.Wait()
	for _, w := range wins {
		w.poison()
	}
	close(e.p.release)
	// Now the replies come, between those to other calls.
	for k := range uint32(20) {
		e.check(mixed(e.Context(), e.c, wins[7], k), "afterwards")
	}
	for i, w := range wins[:len(sizes)] {
		e.check(w.intact(vecs[i], 0), "after a cancelled call with %d bytes to come", sizes[i])
	}
}

// testCancelledUnderLoad: callers that are given up at random, be it while they receive for others, keep nobody else from
// getting replies.
func testCancelledUnderLoad(e *env) {
	const callers, calls, size = 8, 60, 4 << 10
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	wins := e.split(callers)
	crowd(callers, func(i int) {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		for k := range calls {
			ctx, cancel := context.WithCancel(e.Context())
			giveUp := rnd.IntN(3) == 0
			if giveUp {
				go cancel()
			}
			err := get(ctx, e.c, wins[i], size, size, 1, uint32(i*calls+k))
			cancel()
			if !giveUp || !errors.Is(err, context.Canceled) {
				e.check(err, "caller %d, call %d", i, k)
			}
		}
	})
	e.check(null(e.Context(), e.c), "afterwards")
}

func testCancelledBeforehand(e *env) {
	e.check(null(e.Context(), e.c), "null")
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	err := get(ctx, e.c, e.wins[0], 100, 100, 1, 1)
	var te *transport.Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &te) || te.Fate != transport.NotSent {
		e.Errorf("a call that was cancelled beforehand: %v", err)
	}
	e.check(null(e.Context(), e.c), "null, afterwards")
	if n := e.p.count(); n != 2 {
		e.Errorf("%d calls served, want 2", n)
	}
}

// testCutIsResent severs the connection twice while the server delays a call: the
// client must resend it under the same XID, and get the answer in the end.
func testCutIsResent(e *env) {
	const n = 10_000
	v := e.wins[0].vec(n, 1)
	done := make(chan error, 1)
	go func() { done <- e.c.Call(e.Context(), getCall(procHold, v, n, 77)) }()
	first := <-e.p.arrived
	for range 2 {
		e.cut()
		if again := <-e.p.arrived; again != first {
			e.Errorf("sent again under XID %#x, first under %#x", again, first)
		}
	}
	close(e.p.release)
	e.check(<-done, "the call whose connection was cut")
	e.check(gotten(e.wins[0], v, n, 77), "its payload")
	e.check(null(e.Context(), e.c), "null, afterwards")
	if s := e.c.Stats(); s.Resends < 2 || s.Connects < 3 {
		e.Errorf("%+v", s)
	}
}

// testCutUnderLoad severs connections while calls of all shapes are outstanding; none
// may fail.
func testCutUnderLoad(e *env) {
	const callers, calls, cuts = 16, 40, 4
	wins := e.split(callers)
	var made atomic.Int64
	crowd(callers, func(i int) {
		for k := range calls {
			e.check(mixed(e.Context(), e.c, wins[i], uint32(i*calls+k)), "caller %d, call %d", i, k)
			if made.Add(1)%(callers*calls/(cuts+1)) == 0 {
				e.cut()
			}
		}
	})
	if s := e.c.Stats(); s.Connects < cuts {
		e.Errorf("%+v", s)
	}
}

// testClose closes the Caller while the server delays calls.
func testClose(e *env) {
	const callers = 4
	wins := e.split(callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			v := wins[i].vec(5000, 1)
			err := e.c.Call(e.Context(), getCall(procHold, v, 5000, 1))
			var te *transport.Error
			if !errors.As(err, &te) || te.Fate != transport.Unknown || !errors.Is(err, transport.ErrClosed) {
				e.Errorf("closed under a call: %v", err)
			}
		})
	}
	for range callers {
		<-e.p.arrived
	}
	e.check(e.c.Close(), "Close")
	running.Wait()
	close(e.p.release)
	err := null(e.Context(), e.c)
	var te *transport.Error
	if !errors.As(err, &te) || te.Fate != transport.NotSent || !errors.Is(err, transport.ErrClosed) {
		e.Errorf("a call on the closed Caller: %v", err)
	}
}
