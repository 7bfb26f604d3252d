//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/rdmafs/rdmafs/verbs"
)

const (
	// pollBatch is how many completions one crossing into C takes.
	pollBatch = 32
	// spinTime is how long Wait looks for completions before it sleeps, when
	// its last sleep was no longer.
	spinTime = 30 * time.Microsecond
	// recvBit marks the IDs of receives.
	recvBit = 1 << 63
)

// poll is the completion queue.
type poll struct {
	ch         *C.struct_ibv_comp_channel
	cq         *C.struct_ibv_cq
	events     *poller
	takeEvents func(uintptr) bool

	// waiting makes Wait exclusive. It guards armed, spin and took.
	waiting sync.Mutex
	armed   bool // an event will come, or has come and was not taken
	spin    bool
	took    C.int // what takeEvents got

	// mu is held while the queue is polled, so that completions stay in order.
	// It guards gone and wc.
	mu   sync.Mutex
	gone bool // the queue has been destroyed
	wc   [pollBatch]C.struct_rv_wc
}

func (q *poll) id() uint64 { return uint64(uintptr(unsafe.Pointer(q.cq))) }

// completions are those that Wait or PostAndReap will return; conn.mu guards
// them. The ring has room for all that may be posted.
type completions struct {
	ring       []verbs.Completion
	head, tail uint64
}

func (q *completions) push(c verbs.Completion) {
	q.ring[q.tail%uint64(len(q.ring))] = c
	q.tail++
}

// take moves completions to wc; of the send queue only, up to the first
// receive's, if sends is set.
func (c *conn) take(wc []verbs.Completion, sends bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := &c.done
	for n < len(wc) && q.head != q.tail {
		x := &q.ring[q.head%uint64(len(q.ring))]
		if x.Op != verbs.OpRecv {
			c.sends.unreaped--
		} else if sends {
			break
		} else {
			c.recvs.unreaped--
		}
		wc[n] = *x
		q.head++
		n++
	}
	return n
}

// reap polls once: see rv_poll. cq.mu is held.
func (c *conn) reap(arm bool, spin time.Duration) (n int) {
	q := &c.cq
	if q.gone {
		return 0
	}
	a := C.int(0)
	if arm {
		a = 1
	}
	n = int(C.rv_poll(q.cq, &q.wc[0], pollBatch, a, C.int(spin)))
	if n < 0 {
		c.fail(c.lost("receive", fmt.Errorf("completion queue: %w", errno(C.int(n)))))
		return 0
	}
	if n == 0 {
		return 0
	}
	c.mu.Lock()
	err := c.completed(q.wc[:n])
	c.mu.Unlock()
	if err != nil {
		c.fail(err)
	}
	return n
}

// drain takes what is left; cq.mu is held.
func (c *conn) drain() bool {
	n := C.rv_poll(c.cq.cq, &c.cq.wc[0], pollBatch, 0, 0)
	if n <= 0 {
		return false
	}
	c.mu.Lock()
	_ = c.completed(c.cq.wc[:n])
	c.mu.Unlock()
	return true
}

// completed takes over completions. It returns the reason if the connection is
// lost: the first error that is not a flush. mu is held.
func (c *conn) completed(wc []C.struct_rv_wc) error {
	var lost error
	flushed := false
	for i := range wc {
		w := &wc[i]
		id := uint64(w.id)
		if w.status != 0 {
			const flush = 5 // IBV_WC_WR_FLUSH_ERR
			op := "send"
			if id&recvBit != 0 {
				op = "receive"
			}
			if w.status != flush && lost == nil {
				lost = c.lost(op, fmt.Errorf("work request failed: %s (vendor code %#x)", C.GoString(C.rv_status(C.int(w.status))), w.vendor))
			}
			flushed = true
			continue
		}
		if id&recvBit == 0 {
			c.sends.complete(id)
			c.sends.deliver(&c.done)
			continue
		}
		x := verbs.Completion{ID: c.recvs.complete(), Op: verbs.OpRecv, Len: int(w.len)}
		if w.invalidated != 0 {
			key := uint32(w.invalidated_key)
			if c.unbound(key) != nil || w.invalidated == C.RV_INVALIDATED {
				x.Invalidated, x.InvalidatedKey = true, key
			}
		}
		c.done.push(x)
	}
	if lost == nil && flushed {
		lost = c.lost("receive", errPeerGone)
	}
	return lost
}

var errPeerGone = errors.New("the connection was broken off")

// Wait implements verbs.QP.
func (c *conn) Wait(ctx context.Context, wc []verbs.Completion) (int, error) {
	if len(wc) == 0 {
		return 0, &verbs.UsageError{Op: verbs.OpRecv, Why: "Wait without room for a completion"}
	}
	q := &c.cq
	q.waiting.Lock()
	defer q.waiting.Unlock()
	for {
		err := c.ended()
		if err == verbs.ErrClosed {
			return 0, err
		}
		if err != nil {
			c.teardown()
		}
		if n := c.take(wc, false); n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if c.look() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := c.sleep(ctx); err != nil {
			return 0, err
		}
	}
}

// look polls, and makes sure that an event will come if it finds nothing. It
// also finds completions that other goroutines have reaped since take: no event
// announces those.
func (c *conn) look() (found bool) {
	q := &c.cq
	spin := time.Duration(0)
	if q.spin && runtime.GOMAXPROCS(0) > 1 {
		spin = spinTime
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.reap(!q.armed, spin) > 0 {
		return true
	}
	q.armed = true
	q.spin = false
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done.head != c.done.tail
}

// sleep waits for an event, a wake or ctx's end. After a short sleep the next
// look spins.
func (c *conn) sleep(ctx context.Context) error {
	q := &c.cq
	start := time.Now()
	err := q.events.waitSame(ctx, q.takeEvents)
	switch {
	case errors.Is(err, errWoken):
		return nil
	case err != nil:
		return err
	case q.took < 0:
		c.fail(c.lost("receive", fmt.Errorf("completion events: %w", errno(q.took))))
		return nil
	}
	q.armed = false
	q.spin = time.Since(start) <= spinTime
	return nil
}

// readEvents takes the events that are there and reports whether the wait is
// over. takeEvents is this method, made a function value once.
func (q *poll) readEvents(uintptr) bool {
	q.took = C.rv_cq_events(q.ch)
	return q.took != 0
}
