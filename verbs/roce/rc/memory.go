package rc

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// maxWindows bounds the windows of one connection.
const maxWindows = 1 << 16

// memory is what the peer of one connection may reach.
type memory struct {
	// keys has each window that is bound or has a key reserved, under the key.
	keys  map[uint32]*Window
	count int // windows not freed
}

// Window is a key that can be bound to memory.
type Window struct {
	q *QP
	// reserved is the key of Next, 0 when there is none; last is the one
	// that Next gave before.
	reserved, last uint32
	freed          bool

	// key is not 0 while the window is bound, to seg at address base.
	key    uint32
	seg    mem.Seg
	base   uint64
	access verbs.Access
}

// NewWindow makes a window that is not bound.
func (q *QP) NewWindow() (*Window, error) {
	if q.err != nil {
		return nil, q.err
	}
	if q.memory.count >= maxWindows {
		return nil, fmt.Errorf("roce: more than %d windows on a connection", maxWindows)
	}
	q.memory.count++
	return &Window{q: q}, nil
}

// Next reserves the key of the next bind. The whole key is random, so that an
// old key reveals nothing about the next.
func (w *Window) Next() uint32 {
	m := &w.q.memory
	if w.reserved != 0 {
		delete(m.keys, w.reserved)
	}
	for {
		var b [4]byte
		rand.Read(b[:])
		k := binary.BigEndian.Uint32(b[:])
		if k == 0 || k == w.last || m.keys[k] != nil {
			continue
		}
		w.reserved, w.last = k, k
		if !w.freed && w.q.err == nil {
			m.keys[k] = w
		}
		return k
	}
}

// Free gives the window back; the peer can reach nothing by it any more.
func (w *Window) Free() {
	if w.freed {
		return
	}
	w.freed = true
	m := &w.q.memory
	m.count--
	if w.reserved != 0 {
		delete(m.keys, w.reserved)
		w.reserved = 0
	}
	m.revoke(w)
}

func (m *memory) revoke(w *Window) {
	if w.key != 0 {
		delete(m.keys, w.key)
		w.key, w.seg = 0, mem.Seg{}
	}
}

// bind binds w to s at address base, under the key that it has reserved.
func (m *memory) bind(w *Window, s mem.Seg, base uint64, a verbs.Access) {
	w.key, w.reserved = w.reserved, 0
	w.seg, w.base, w.access = s, base, a
}

// invalidate revokes the window bound under key and reports whether there was one.
func (m *memory) invalidate(key uint32) bool {
	w := m.keys[key]
	if key == 0 || w == nil || w.key != key {
		return false
	}
	m.revoke(w)
	return true
}

// revokeAll ends all access.
func (m *memory) revokeAll() {
	for _, w := range m.keys {
		w.key, w.reserved, w.seg = 0, 0, mem.Seg{}
	}
	clear(m.keys)
}

// reach finds n bytes at va under key for a peer's access need. For a zero-length
// access key and address are not checked.
func (m *memory) reach(key uint32, va uint64, n int, need verbs.Access) (mem.Seg, error) {
	if n == 0 {
		return mem.Seg{}, nil
	}
	w := m.keys[key]
	switch {
	case key == 0 || w == nil || w.key != key:
		return mem.Seg{}, fmt.Errorf("%#x is not a valid key", key)
	case w.access&need == 0:
		return mem.Seg{}, fmt.Errorf("key %#x does not permit it", key)
	case va < w.base || va-w.base > uint64(w.seg.Len) || uint64(n) > uint64(w.seg.Len)-(va-w.base):
		return mem.Seg{}, fmt.Errorf("%d bytes at %#x, %d bytes bound at %#x", n, va, w.seg.Len, w.base)
	}
	return w.seg.Slice(int(va-w.base), n), nil
}
