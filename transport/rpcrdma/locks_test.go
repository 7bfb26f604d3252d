//go:build locks

package rpcrdma

import (
	"cmp"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestLocksOfRead prints what one READ of 4 KiB costs on a link of version 1, in mutex acquisitions, timers and
// goroutine switches. It builds with test/locks/run alone.
func TestLocksOfRead(t *testing.T) {
	const calls, size = 2000, 4096
	s := startServerWith(t, ServerConfig{}, benchHandler{})
	r := dialPeer(t, s.addr, nil)
	c := fillCall(mem.Vec{r.arena.Seg(0, size)}, size, new(int))
	xid := uint32(0)
	exchange := func(n int) {
		for range n {
			xid++
			if err := r.Exchange(t.Context(), xid, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	exchange(100)
	type lock struct {
		mutex *sync.Mutex
		stack [12]uintptr
	}
	var n, timers atomic.Int64
	locks := make([]lock, 200*calls)
	before := switches()
	sync.OnLock = func(m *sync.Mutex) {
		if i := n.Add(1) - 1; i < int64(len(locks)) {
			locks[i].mutex = m
			runtime.Callers(3, locks[i].stack[:])
		}
	}
	time.OnTimer = func() { timers.Add(1) }
	exchange(calls)
	sync.OnLock, time.OnTimer = nil, nil
	total := int(min(n.Load(), int64(len(locks))))
	t.Logf("%d calls: %.1f acquisitions, %.2f timers, %.1f switches of goroutines a call, of client and server together", calls,
		float64(total)/calls, float64(timers.Load())/calls, float64(switches()-before)/calls)
	for _, side := range []string{"client", "server"} {
		mutexes, places := map[*sync.Mutex]int{}, map[string]int{}
		sum := 0
		for i := range locks[:total] {
			at, of := whoLocks(locks[i].stack[:])
			if of == side {
				mutexes[locks[i].mutex]++
				places[at]++
				sum++
			}
		}
		often := 0
		for _, k := range mutexes {
			if k >= calls/2 {
				often++
			}
		}
		t.Logf("%s: %.1f acquisitions of %d mutexes a call", side, float64(sum)/calls, often)
		for _, at := range slices.SortedFunc(maps.Keys(places), func(a, b string) int { return cmp.Or(places[b]-places[a], strings.Compare(a, b)) }) {
			if places[at] >= calls/20 {
				t.Logf("    %5.2f  %s", float64(places[at])/calls, at)
			}
		}
	}
}

// whoLocks names the function that locks, and the side for which it does.
func whoLocks(stack []uintptr) (at, side string) {
	frames := runtime.CallersFrames(stack)
	side = "client"
	for {
		f, more := frames.Next()
		name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
		if at == "" {
			at = name
		}
		if l := strings.ToLower(name); strings.Contains(l, "server") || strings.Contains(l, "respond") {
			side = "server"
		}
		if !more {
			return at, side
		}
	}
}

// switches is about how often a goroutine has been scheduled: the runtime counts one time in eight.
func switches() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	for _, k := range h.Counts {
		n += k
	}
	return 8 * n
}
