package bufpool

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

var ctx = context.Background()

func newPool(t *testing.T, cfg Config) *Pool {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(t *testing.T, p *Pool, n int) Lease {
	t.Helper()
	l, err := p.Get(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// waitFor spins until n Gets wait: there is no event for that outside.
func waitFor(p *Pool, n int) {
	for p.Stats().Waiting != n {
		runtime.Gosched()
	}
}

func TestSizesAndRegistration(t *testing.T) {
	arenas := map[*mem.Arena]bool{}
	p := newPool(t, Config{Limit: 32 << 20,
		Register:   func(a *mem.Arena) error { arenas[a] = true; return nil },
		Unregister: func(a *mem.Arena) error { delete(arenas, a); return nil }})
	var all []Lease
	for _, n := range []int{0, 1, MinSize, MinSize + 1, 100 << 10, MaxSize - 1, MaxSize} {
		l := get(t, p, n)
		if l.Len() < n || l.Len() >= 2*n && n > MinSize || len(l.Bytes()) != l.Len() {
			t.Errorf("Get(%d): buffer of %d", n, l.Len())
		}
		if !arenas[l.Seg().Arena] {
			t.Errorf("Get(%d): arena not registered", n)
		}
		all = append(all, l)
	}
	if _, err := p.Get(ctx, MaxSize+1); !errors.Is(err, ErrTooBig) {
		t.Errorf("too large: %v", err)
	}
	if err := p.Close(); err == nil {
		t.Error("Close with leases succeeded")
	}
	for _, l := range all {
		l.Release()
	}
	if err := p.Close(); err != nil || len(arenas) != 0 {
		t.Errorf("Close: %v, %d arenas left", err, len(arenas))
	}
	if _, err := p.Get(ctx, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
}

func TestRegistrationFailure(t *testing.T) {
	boom := errors.New("boom")
	p := newPool(t, Config{Limit: 1, Register: func(*mem.Arena) error { return boom }})
	if _, err := p.Get(ctx, 1); !errors.Is(err, boom) {
		t.Errorf("Get: %v", err)
	}
	if _, ok := p.TryGet(1); ok {
		t.Error("TryGet succeeded")
	}
	if err := p.Reserve(); !errors.Is(err, boom) {
		t.Errorf("Reserve: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestSecondReleasePanics(t *testing.T) {
	p := newPool(t, Config{Limit: 1})
	l := get(t, p, 1)
	l.Release()
	again := get(t, p, 1) // the same buffer, most likely
	defer func() {
		if recover() == nil {
			t.Error("second Release did not panic")
		}
		again.Release()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	l.Release()
}

func TestWaitersAreServedInTurn(t *testing.T) {
	pressed := make(chan struct{}, 8)
	p := newPool(t, Config{Limit: 4 * MaxSize, Pressure: func() { pressed <- struct{}{} }})
	var held []Lease
	for range 4 {
		held = append(held, get(t, p, MaxSize))
	}
	order := make(chan int, 2)
	var wg sync.WaitGroup
	for k, n := range []int{MaxSize, MinSize} {
		wg.Go(func() {
			l, err := p.Get(ctx, n)
			if err != nil {
				t.Error(err)
				return
			}
			order <- k
			l.Release()
		})
		<-pressed
		waitFor(p, k+1)
	}
	if _, ok := p.TryGet(1); ok {
		t.Error("TryGet overtook waiting Gets")
	}
	held[0].Release()
	wg.Wait()
	if first := <-order; first != 0 {
		t.Errorf("waiter %d was served first", first)
	}
	for _, l := range held[1:] {
		l.Release()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestCancelledWaiterLetsOthersBy(t *testing.T) {
	p := newPool(t, Config{Limit: 4 * MaxSize})
	var held []Lease
	for range 3 {
		held = append(held, get(t, p, MaxSize))
	}
	for range MaxSize / MinSize {
		held = append(held, get(t, p, MinSize))
	}
	c, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Get(c, MaxSize); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Get: %v", err)
		}
	})
	waitFor(p, 1)
	wg.Go(func() {
		if l, err := p.Get(ctx, MinSize); err != nil {
			t.Error(err)
		} else {
			l.Release()
		}
	})
	waitFor(p, 2)
	held[3].Release() // enough for the second only
	held = append(held[:3], held[4:]...)
	if p.Stats().Waiting != 2 {
		t.Error("the second overtook the first")
	}
	cancel()
	wg.Wait()
	for _, l := range held {
		l.Release()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestTryGetLeavesAQuarter(t *testing.T) {
	p := newPool(t, Config{Limit: 16 << 20})
	var held []Lease
	for {
		all := p.Stats().Mapped >= p.Limit() // asked first: an arena may be ready right after TryGet
		l, ok := p.TryGet(MaxSize)
		if !ok && !all {
			runtime.Gosched() // an arena is being made
			continue
		}
		if !ok {
			break
		}
		held = append(held, l)
	}
	if len(held) != 12 {
		t.Errorf("TryGet lent %d of 16 MiB", len(held))
	}
	held = append(held, get(t, p, MaxSize))
	for _, l := range held {
		l.Release()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestTryGetDoesNotWaitForRegistration has an arena made in the background, once,
// while a TryGet after the other returns.
func TestTryGetDoesNotWaitForRegistration(t *testing.T) {
	begun, end := make(chan struct{}, 8), make(chan struct{})
	p := newPool(t, Config{Limit: 16 << 20, Register: func(*mem.Arena) error {
		begun <- struct{}{}
		<-end
		return nil
	}})
	for range 100 {
		if _, ok := p.TryGet(MinSize); ok {
			t.Fatal("TryGet lent memory that was not registered yet")
		}
	}
	<-begun
	if _, ok := p.TryGet(MinSize); ok || len(begun) > 0 {
		t.Fatal("TryGet lent memory that was not registered yet, or had more of it made")
	}
	got := make(chan Lease)
	go func() {
		l, err := p.Get(ctx, MinSize) // waits for the same arena
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	close(end)
	l := <-got
	m, ok := p.TryGet(MinSize)
	if !ok || len(begun) > 0 || p.Stats().Mapped != arenaSlabs*slabSize {
		t.Errorf("TryGet after registration: %v; %d registrations more, %d bytes mapped", ok, len(begun), p.Stats().Mapped)
	}
	l.Release()
	m.Release()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestTryGetGivesUpAfterFailedRegistration leaves further tries to Get.
func TestTryGetGivesUpAfterFailedRegistration(t *testing.T) {
	boom := errors.New("boom")
	var tries atomic.Int32
	var works atomic.Bool
	p := newPool(t, Config{Limit: 16 << 20, Register: func(*mem.Arena) error {
		tries.Add(1)
		if works.Load() {
			return nil
		}
		return boom
	}})
	p.TryGet(MinSize)
	p.runs.Wait()
	for range 100 {
		if _, ok := p.TryGet(MinSize); ok {
			t.Fatal("TryGet succeeded")
		}
		p.runs.Wait()
	}
	if n := tries.Load(); n != 1 {
		t.Errorf("TryGet tried to register %d times", n)
	}
	if _, err := p.Get(ctx, MinSize); !errors.Is(err, boom) {
		t.Errorf("Get: %v", err)
	}
	works.Store(true)
	get(t, p, MinSize).Release()
	l, ok := p.TryGet(MinSize)
	if !ok {
		t.Fatal("TryGet failed with free memory")
	}
	l.Release()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Buffers never overlap, and all memory is there for any size again.
func TestRandomLeases(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := newPool(t, Config{Limit: 16 << 20})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(g)))
			var held []Lease
			for range 2000 {
				if len(held) > 0 && r.IntN(2) == 0 {
					k := r.IntN(len(held))
					l := held[k]
					held[k] = held[len(held)-1]
					held = held[:len(held)-1]
					b := l.Bytes()
					if b[0] != byte(g) || b[len(b)-1] != byte(g) {
						t.Error("a buffer was lent twice")
					}
					l.Release()
					continue
				}
				l, ok := p.TryGet(MinSize << r.IntN(classes))
				if !ok {
					continue
				}
				b := l.Bytes()
				b[0], b[len(b)-1] = byte(g), byte(g)
				held = append(held, l)
			}
			for _, l := range held {
				l.Release()
			}
		})
	}
	wg.Wait()
	var held []Lease
	for range 16 {
		held = append(held, get(t, p, MaxSize))
	}
	for _, l := range held {
		l.Release()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	p, err := New(Config{Limit: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Get(ctx, 64<<10)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
}
