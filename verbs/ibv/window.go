//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// maxWindows bounds the windows of one connection.
const maxWindows = 1 << 16

// window implements verbs.Window. With RegionKeys it is only a name: mw is 0.
// conn.mu guards the fields after mw.
type window struct {
	c  *conn
	mw C.uint64_t

	// key is the key of the last bind, next that of Next.
	key, next       uint32
	reserved, bound bool
	freed           bool
	// last is one more than the number of the last work request that names it.
	last uint64
}

// NewWindow implements verbs.QP.
func (c *conn) NewWindow() (verbs.Window, error) {
	c.post.mu.Lock()
	defer c.post.mu.Unlock()
	if err := c.ended(); err != nil {
		return nil, err
	}
	if len(c.windows) >= maxWindows {
		return nil, fmt.Errorf("ibv: more than %d windows on a connection", maxWindows)
	}
	w := &window{c: c}
	if !c.dom.caps.RegionKeys {
		var mw C.struct_rv_mw
		if err := errno(C.rv_alloc_mw(c.dom.pd, &mw)); err != nil {
			return nil, fmt.Errorf("RDMA device %s: no memory window: %w", c.dom.adapter.name, err)
		}
		w.mw, w.key = mw.mw, uint32(mw.rkey)
	}
	c.windows[w] = struct{}{}
	return w, nil
}

// Next implements verbs.Window. Of a window's key the last byte is ours to
// choose.
func (w *window) Next(s mem.Seg) uint32 {
	if w.mw == 0 {
		w.c.mu.Lock()
		w.reserved = true
		w.c.mu.Unlock()
		r, _ := w.c.dom.find(s)
		return uint32(r.rkey)
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	last := w.key
	if w.reserved {
		last = w.next
	}
	w.next = after(last)
	if w.next == w.key {
		w.next = after(w.next)
	}
	w.reserved = true
	return w.next
}

// after counts up the last byte of a key.
func after(key uint32) uint32 { return key&^0xff | uint32(uint8(key)+1) }

// Addr implements verbs.Window. It is 0 for memory that is not registered.
func (w *window) Addr(s mem.Seg) uint64 {
	r, ok := w.c.dom.find(s)
	if !ok {
		return 0
	}
	return r.base + uint64(s.Off)
}

// unbound records that a key is not valid any more. It returns the window that
// was bound under it, or nil. mu is held.
func (c *conn) unbound(key uint32) *window {
	w := c.keys[key>>8]
	if w == nil || w.key != key || !w.bound {
		return nil
	}
	w.bound = false
	return w
}

// Free implements verbs.Window. It waits for work requests that name the
// window: without it they would fail, and the connection with them.
func (w *window) Free() {
	c := w.c
	c.post.mu.Lock()
	defer c.post.mu.Unlock()
	c.mu.Lock()
	again := w.freed
	w.freed = true
	c.mu.Unlock()
	if _, mine := c.windows[w]; again || !mine {
		return // freed before, or gone with the connection
	}
	for marked := false; w.pending() && c.ended() == nil; runtime.Gosched() {
		if !marked {
			// The completion of a zero-length Write shows that the queue has come
			// this far. It has the spare place even if the queue is full of
			// completions that only the caller would take.
			n, _ := c.postSend([]verbs.SendWR{{Op: verbs.OpWrite}}, true)
			marked = n == 1
		}
		c.makeRoom()
	}
	if c.ended() != nil {
		return // teardown does the rest
	}
	delete(c.windows, w)
	w.dealloc()
}

// pending reports whether a work request that names w may be outstanding.
func (w *window) pending() bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.last > w.c.sends.reached
}

// dealloc deallocates the adapter's window, which ends all access through it.
// w.c.post.mu is held.
func (w *window) dealloc() {
	if w.mw == 0 {
		return
	}
	w.c.mu.Lock()
	if w.c.keys[w.key>>8] == w {
		delete(w.c.keys, w.key>>8)
	}
	w.freed, w.bound = true, false
	w.c.mu.Unlock()
	C.rv_dealloc_mw(w.mw)
}
