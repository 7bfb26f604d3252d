package roce

import (
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/rc"
)

// window implements verbs.Window.
type window struct {
	c *conn
	w *rc.Window
}

// NewWindow implements verbs.QP.
func (c *conn) NewWindow() (verbs.Window, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ended(); err != nil {
		return nil, err
	}
	w, err := c.q.NewWindow()
	if err != nil {
		return nil, err
	}
	return &window{c: c, w: w}, nil
}

// windowOf is the window of a work request as its queue pair knows it.
func windowOf(wr *verbs.SendWR) *rc.Window {
	if w, ok := wr.Window.(*window); ok && w != nil {
		return w.w
	}
	return nil
}

func (w *window) Next(mem.Seg) uint32 {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.w.Next()
}

// Addr implements verbs.Window. It is 0 for memory that is not registered.
func (w *window) Addr(s mem.Seg) uint64 {
	va, _ := w.c.dev.Address(s)
	return va
}

func (w *window) Free() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.w.Free()
}
