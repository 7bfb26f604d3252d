package iwarp

import (
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/verbs"
)

// queue is the completion queue. It also wakes a Wait that is blocked on the
// socket when a request completes or the connection ends.
type queue struct {
	n atomic.Int32 // completions in ring, for a look without the lock

	mu sync.Mutex
	// ring has room for every work request that may be outstanding.
	ring       []verbs.Completion
	head, tail uint64
	// parked: Wait is blocked on the socket. woken: its read deadline has been
	// moved to wake it.
	parked, woken bool
	// held counts the PostAndReap calls in progress: they wake Wait for the
	// completions that they do not take.
	held      int
	interrupt func()
}

// push appends a completion and wakes Wait, now or when the last hold ends.
func (q *queue) push(wc verbs.Completion) {
	q.mu.Lock()
	q.ring[q.tail%uint64(len(q.ring))] = wc
	q.tail++
	q.n.Add(1)
	if q.held == 0 {
		q.wakeLocked()
	}
	q.mu.Unlock()
}

// hold defers waking Wait until release has been called as often.
func (q *queue) hold() {
	q.mu.Lock()
	q.held++
	q.mu.Unlock()
}

// release ends a hold and moves completions of the send queue to wc: those
// before the first receive's, which is for Wait alone.
func (q *queue) release(wc []verbs.Completion) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n < len(wc) && q.head != q.tail {
		c := &q.ring[q.head%uint64(len(q.ring))]
		if c.Op == verbs.OpRecv {
			break
		}
		wc[n] = *c
		q.head++
		n++
	}
	q.n.Add(int32(-n))
	q.held--
	if q.held == 0 && q.head != q.tail {
		q.wakeLocked()
	}
	return n
}

// take moves completions to wc. It reports how many were of the send queue.
func (q *queue) take(wc []verbs.Completion) (n, sends int) {
	if q.n.Load() == 0 {
		return 0, 0
	}
	q.mu.Lock()
	for n < len(wc) && q.head != q.tail {
		wc[n] = q.ring[q.head%uint64(len(q.ring))]
		if wc[n].Op != verbs.OpRecv {
			sends++
		}
		q.head++
		n++
	}
	q.n.Add(int32(-n))
	q.mu.Unlock()
	return n, sends
}

// park is called before waiting for the socket. It refuses when there is a
// completion already.
func (q *queue) park() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked = q.head == q.tail && !q.woken
	return q.parked
}

// unpark is called after waiting and reports whether the read deadline was moved.
func (q *queue) unpark() (woken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	woken = q.woken
	q.parked, q.woken = false, false
	return woken
}

// wake wakes Wait, if it is blocked on the socket.
func (q *queue) wake() {
	q.mu.Lock()
	q.wakeLocked()
	q.mu.Unlock()
}

func (q *queue) wakeLocked() {
	if q.parked && !q.woken {
		q.woken = true
		q.interrupt()
	}
}
