//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/provider"
)

// sendBatch is how many work requests one crossing into C posts.
const sendBatch = 32

// sender is the way to the send queue. mu keeps batches together, and is held
// while they are posted.
type sender struct {
	mu  sync.Mutex
	wr  [sendBatch]C.struct_rv_wr
	sge [sendBatch * maxSGE]C.struct_rv_sge
}

// sendEntry is a posted work request.
type sendEntry struct {
	id uint64
	op verbs.Op
	// visible: the user wants a completion. signaled: the adapter gives one.
	visible, signaled bool
	// local: nothing was posted for it, it is done.
	local bool
	done  bool
}

// sendRing holds the work requests from head to tail; conn.mu guards it. The
// completion of one implies that those before are done, except Reads on adapters
// that complete later Sends first: hence done for each, and delivery in order.
// It has one more place than its user may fill: see Free.
type sendRing struct {
	ring            []sendEntry
	head, due, tail uint64
	// reached is one more than the latest request that completed.
	reached uint64
	// unreaped counts completions not yet returned; their places are not free.
	unreaped int
	// quiet counts the requests posted since the last signaled one. At least one
	// in each stride is signaled.
	quiet, stride int
}

func (r *sendRing) init(depth int) {
	r.ring = make([]sendEntry, depth+1)
	r.stride = max(1, depth/4)
}

func (r *sendRing) at(i uint64) *sendEntry { return &r.ring[i%uint64(len(r.ring))] }

func (r *sendRing) room() int { return len(r.ring) - 1 - int(r.tail-r.head) - r.unreaped }

// push appends an entry and returns its number.
func (r *sendRing) push(e sendEntry) uint64 {
	*r.at(r.tail) = e
	r.tail++
	return r.tail - 1
}

// complete records that the adapter has completed request i.
func (r *sendRing) complete(i uint64) {
	if i < r.head || i >= r.tail {
		return // not posted here: an error of the adapter
	}
	r.at(i).done = true
	r.reached = max(r.reached, i+1)
}

// deliver moves the completions that are due to to, and frees places.
func (r *sendRing) deliver(to *completions) {
	for ; r.due != r.tail; r.due++ {
		e := r.at(r.due)
		if e.signaled && !e.done {
			break
		}
		if e.visible {
			r.unreaped++
			to.push(verbs.Completion{ID: e.id, Op: e.op})
		}
	}
	for ; r.head != r.due; r.head++ {
		if e := r.at(r.head); !e.done && !e.local && r.head >= r.reached {
			break
		}
	}
}

// PostSend implements verbs.QP.
func (c *conn) PostSend(wr []verbs.SendWR) (posted int, err error) {
	c.post.mu.Lock()
	defer c.post.mu.Unlock()
	return c.postSend(wr, false)
}

// postSend posts wr; if spare is set, all signaled, and into the spare place if
// necessary. post.mu is held.
func (c *conn) postSend(wr []verbs.SendWR, spare bool) (posted int, err error) {
	for posted < len(wr) && err == nil {
		var n int
		n, err = c.postBatch(wr[posted:], spare)
		posted += n
		if err == verbs.ErrQueueFull && c.makeRoom() {
			err = nil
		}
	}
	return posted, err
}

// makeRoom polls for a moment and reports whether the queue has room then:
// unsignaled requests may be done.
func (c *conn) makeRoom() bool {
	c.cq.mu.Lock()
	c.reap(false, spinTime)
	c.cq.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sends.room() > 0
}

// PostAndReap implements verbs.QP.
func (c *conn) PostAndReap(wr []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	posted, err = c.PostSend(wr)
	// If another goroutine is polling, it will reap these completions, too.
	if c.cq.mu.TryLock() {
		c.reap(false, 0)
		c.cq.mu.Unlock()
	}
	if c.ended() == nil {
		reaped = c.take(wc, true)
	}
	return posted, reaped, err
}

// postBatch posts what fits one crossing. post.mu is held.
func (c *conn) postBatch(wr []verbs.SendWR, spare bool) (posted int, err error) {
	if err := c.ended(); err != nil {
		return 0, err
	}
	taken, n, err := c.encode(wr, spare)
	if n == 0 {
		return taken, err
	}
	done := C.rv_post_send(c.qp, &c.post.wr[0], C.int(n), &c.post.sge[0])
	if done.error != 0 {
		// The requests were checked before: the adapter is broken, or the queue
		// pair is in an error state.
		err = c.lost("send", fmt.Errorf("the adapter takes no work request: %w", syscall.Errno(done.error)))
		c.fail(err)
		return min(taken, int(done.n)), err
	}
	return taken, err
}

// encode checks requests and makes descriptors of as many as fit. It returns
// how many were taken, and how many of these are to be posted. err is why it
// stopped before the batch was full.
func (c *conn) encode(wr []verbs.SendWR, spare bool) (taken, n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.sends
	sges, extra := 0, 0
	if spare {
		extra = 1
	}
	local := false
	for taken < len(wr) && n < sendBatch {
		w := &wr[taken]
		if r.room()+extra <= 0 {
			err = verbs.ErrQueueFull
			break
		}
		d := &c.post.wr[n]
		*d = C.struct_rv_wr{}
		e := sendEntry{id: w.ID, op: w.Op, visible: w.Signaled || w.Op == verbs.OpRead}
		used, why := c.describe(w, d, c.post.sge[sges:], &e)
		if why != "" {
			err = &verbs.UsageError{Op: w.Op, Why: why}
			break
		}
		taken++
		if e.local && e.visible && r.quiet > 0 {
			// Its completion would imply that the unsignaled requests before it
			// are done: a zero-length Write is posted behind them instead.
			e.local = false
			*d = C.struct_rv_wr{op: C.RV_WRITE}
		}
		if e.local {
			local = true
			r.push(e)
			continue
		}
		r.quiet++
		e.signaled = e.visible || spare || r.quiet >= r.stride
		if e.signaled {
			r.quiet = 0
			d.signaled = 1
		}
		d.sge, d.sges = C.uint32_t(sges), C.uint32_t(used)
		d.id = C.uint64_t(r.push(e))
		sges += used
		n++
	}
	if local {
		r.deliver(&c.done)
		if c.done.head != c.done.tail {
			c.cq.events.wake()
		}
	}
	return taken, n, err
}

// describe checks one request and fills its descriptor, and segments of it that
// are not empty. why is empty when all is right. mu is held.
func (c *conn) describe(w *verbs.SendWR, d *C.struct_rv_wr, sge []C.struct_rv_sge, e *sendEntry) (used int, why string) {
	if len(w.Local) > c.dom.caps.MaxSGE {
		return 0, "too many segments"
	}
	total := 0
	for _, s := range w.Local {
		if s.Len == 0 {
			continue
		}
		r, ok := c.dom.find(s)
		if !ok {
			return 0, "segment is not in registered memory"
		}
		if s.Len > c.dom.caps.MaxMessage-total {
			return 0, "message too long"
		}
		total += s.Len
		sge[used] = C.struct_rv_sge{addr: C.uint64_t(r.base + uint64(s.Off)), len: C.uint32_t(s.Len), lkey: r.lkey}
		used++
	}
	if why := provider.CheckSend(w, total, c.readsOut); why != "" {
		return 0, why
	}
	d.addr, d.rkey = C.uint64_t(w.Addr), C.uint32_t(w.RKey)
	switch w.Op {
	case verbs.OpSend:
		d.op = C.RV_SEND
	case verbs.OpSendInvalidate:
		d.op = C.RV_SEND_INV
	case verbs.OpWrite:
		d.op = C.RV_WRITE
	case verbs.OpRead:
		d.op = C.RV_READ
	case verbs.OpBind:
		return 0, c.describeBind(w, d, e, w.Local[0])
	case verbs.OpLocalInvalidate:
		d.op = C.RV_LOCAL_INV
		// For a key that is not bound any more nothing is posted: some adapters
		// would end the connection.
		win := c.unbound(w.RKey)
		if e.local = win == nil; win != nil {
			win.last = c.sends.tail + 1
		}
		return 0, ""
	}
	return used, ""
}

func (c *conn) describeBind(w *verbs.SendWR, d *C.struct_rv_wr, e *sendEntry, s mem.Seg) (why string) {
	win, ok := w.Window.(*window)
	if !ok || win == nil || win.c != c {
		return "window of another connection"
	}
	switch {
	case win.freed:
		return "window was freed"
	case !win.reserved:
		return "no key reserved with Next"
	case win.bound:
		return "window is bound"
	}
	win.reserved = false
	if win.mw == 0 {
		e.local = true
		return ""
	}
	r, _ := c.dom.find(s)
	win.key, win.bound, win.last = win.next, true, c.sends.tail+1
	c.keys[win.key>>8] = win
	d.op = C.RV_BIND
	d.mw, d.mr = win.mw, r.mr
	d.rkey = C.uint32_t(win.key)
	d.addr, d.len = C.uint64_t(r.base+uint64(s.Off)), C.uint64_t(s.Len)
	if w.Access&verbs.RemoteRead != 0 {
		d.remote_read = 1
	}
	if w.Access&verbs.RemoteWrite != 0 {
		d.remote_write = 1
	}
	return ""
}
