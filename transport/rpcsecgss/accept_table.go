package rpcsecgss

import (
	"sync"
	"sync/atomic"
	"time"
)

// handle names a context. It is drawn at random: one from before a restart names none.
type handle [16]byte

// accepted is a context that a server has.
type accepted struct {
	handle handle
	tokens Tokens
	who    string
	made   time.Time
	used   atomic.Int64 // when a call was last admitted, in Unix nanoseconds; 0: never
	window window
}

// table is the contexts of a server. mu is a leaf.
type table struct {
	max int

	mu sync.RWMutex
	m  map[handle]*accepted
}

func (t *table) get(h []byte) *accepted {
	if len(h) != len(handle{}) {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.m[handle(h)]
}

// add enters x. If there is no room, contexts that have expired go; if there is none
// still, the one that was used least recently does. One that never was used goes before
// all that were, so that tokens that somebody has recorded and sends again push none out.
func (t *table) add(x *accepted, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.m) >= t.max {
		t.makeRoom(now)
	}
	t.m[x.handle] = x
}

// makeRoom is part of add; mu is held.
func (t *table) makeRoom(now time.Time) {
	var oldest *accepted
	for h, x := range t.m {
		if !now.Before(x.tokens.Expires()) {
			delete(t.m, h)
			continue
		}
		if oldest == nil || x.before(oldest) {
			oldest = x
		}
	}
	if len(t.m) >= t.max {
		delete(t.m, oldest.handle)
	}
}

// before reports whether x gives way before o does.
func (x *accepted) before(o *accepted) bool {
	if u, v := x.used.Load(), o.used.Load(); u != v {
		return u < v
	}
	return x.made.Before(o.made)
}

func (t *table) remove(x *accepted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, x.handle)
}

func (t *table) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.m)
}

func (t *table) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.m)
}
