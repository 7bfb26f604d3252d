package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// maxWindows bounds the windows of one connection.
const maxWindows = 1 << 16

// memory is what the peer of one connection may reach.
type memory struct {
	// mu is read-locked around each access to memory that a window permits,
	// and locked to revoke one.
	mu sync.RWMutex
	// keys has each window that is bound or has a key reserved, under the key.
	keys  map[uint32]*window
	count int // windows not freed
}

// window implements verbs.Window. Its fields are guarded by memory.mu.
type window struct {
	c *conn
	// reserved is the key of Next, 0 when there is none; last is the one
	// that Next gave before.
	reserved, last uint32
	freed          bool

	// posted is the key of the last posted OpBind, 0 once an OpLocalInvalidate of
	// it is posted; key changes when the queue executes them.
	posted uint32
	// key is not 0 while the window is bound, to seg at address base.
	key    uint32
	seg    mem.Seg
	base   uint64
	access verbs.Access
	// answers counts the peer's Reads from the window that are not sent
	// to the last byte. It grows with memory.mu read-locked only.
	answers atomic.Int32
}

// NewWindow implements verbs.QP.
func (c *conn) NewWindow() (verbs.Window, error) {
	if err := c.ended(); err != nil {
		return nil, err
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count >= maxWindows {
		return nil, fmt.Errorf("iwarp: more than %d windows on a connection", maxWindows)
	}
	m.count++
	return &window{c: c}, nil
}

// Next implements verbs.Window. The whole key is random, not only its last
// byte, so that an old key reveals nothing about the next.
func (w *window) Next(mem.Seg) uint32 {
	m := &w.c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
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
		if !w.freed {
			m.keys[k] = w
		}
		return k
	}
}

// Addr implements verbs.Window. It is 0 for memory that is not registered.
func (w *window) Addr(s mem.Seg) uint64 {
	addr, _ := w.c.dev.Address(s)
	return addr
}

// Free implements verbs.Window.
func (w *window) Free() {
	if w.free() {
		w.c.abort("send", errRevoked)
	}
}

func (w *window) free() (broken bool) {
	m := &w.c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.freed {
		return false
	}
	w.freed = true
	m.count--
	if w.reserved != 0 {
		delete(m.keys, w.reserved)
		w.reserved = 0
	}
	return m.revoke(w)
}

// errRevoked ends a connection whose peer has begun to read bytes that it may
// no longer reach.
var errRevoked = violate(rdmapInvalidSTag, "window revoked while the peer was reading from it")

// revoke unbinds w; mu is locked. broken: the peer was reading from it, so that
// the connection cannot go on.
func (m *memory) revoke(w *window) (broken bool) {
	if w.key == 0 {
		return false
	}
	delete(m.keys, w.key)
	w.key, w.seg = 0, mem.Seg{}
	return w.answers.Load() > 0
}

// prepareBind checks a bind that is to be posted and takes the reserved key.
func (m *memory) prepareBind(wr *verbs.SendWR, c *conn) (w *window, key uint32, why string) {
	w, ok := wr.Window.(*window)
	if !ok || w == nil || w.c != c {
		return nil, 0, "window of another connection"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case w.freed:
		return nil, 0, "window was freed"
	case w.reserved == 0:
		return nil, 0, "no key reserved with Next"
	case w.posted != 0:
		return nil, 0, "window is bound"
	}
	key, w.reserved = w.reserved, 0
	w.posted = key
	return w, key, ""
}

// bind executes a posted bind.
func (m *memory) bind(w *window, key uint32, s mem.Seg, base uint64, a verbs.Access) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.freed {
		delete(m.keys, key)
		return
	}
	w.key, w.seg, w.base, w.access = key, s, base, a
	m.keys[key] = w
}

// invalidate revokes the window bound under key and reports whether there was
// one; broken is as for revoke.
func (m *memory) invalidate(key uint32) (found, broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.keys[key]
	if key == 0 || w == nil {
		return false, false
	}
	if w.posted == key {
		w.posted = 0
	}
	if w.key != key {
		return false, false
	}
	return true, m.revoke(w)
}

// revokeAll ends all access.
func (m *memory) revokeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.keys {
		w.key, w.reserved, w.seg = 0, 0, mem.Seg{}
	}
	clear(m.keys)
}

// permits reports whether w is still bound under key; mu is read-locked.
func (w *window) permits(key uint32) bool { return w.key == key }

// faults are the codes of one kind of access.
type faults struct{ stag, access, bounds, wrap termCode }

var (
	writeFaults = faults{ddpInvalidSTag, rdmapAccess, ddpBounds, ddpTOWrap}
	readFaults  = faults{rdmapInvalidSTag, rdmapAccess, rdmapBounds, rdmapTOWrap}
)

// reach finds n bytes at to under key for a peer's access need. With
// RemoteRead it counts one answer more.
func (m *memory) reach(key uint32, to uint64, n int, need verbs.Access, f *faults) (*window, mem.Seg, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	w := m.keys[key]
	switch {
	case key == 0 || w == nil || w.key != key:
		return nil, mem.Seg{}, violate(f.stag, "%#x is not a valid key", key)
	case w.access&need == 0:
		return nil, mem.Seg{}, violate(f.access, "key %#x does not permit it", key)
	case to > ^uint64(0)-uint64(n):
		return nil, mem.Seg{}, violate(f.wrap, "%d bytes at %#x", n, to)
	case to < w.base || to-w.base > uint64(w.seg.Len) || uint64(n) > uint64(w.seg.Len)-(to-w.base):
		return nil, mem.Seg{}, violate(f.bounds, "%d bytes at %#x, %d bytes bound at %#x", n, to, w.seg.Len, w.base)
	}
	if need == verbs.RemoteRead {
		w.answers.Add(1)
	}
	return w, w.seg.Slice(int(to-w.base), n), nil
}
