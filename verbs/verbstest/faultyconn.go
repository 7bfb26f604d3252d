package verbstest

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
)

// faultyConn implements verbs.Conn over another one.
type faultyConn struct {
	f     *Faults
	qp    verbs.QP   // inner, or what Prepare was given
	inner verbs.Conn // nil during Prepare

	// late are completions taken from inner that are not delivered yet; Wait alone uses it.
	late []verbs.Completion

	once sync.Once
	gone chan struct{} // closed by Close and by a cut

	mu     sync.Mutex
	isCut  bool
	hidden map[uint64]int // IDs of swallowed Sends that will complete
}

func (c *faultyConn) NewWindow() (verbs.Window, error) {
	w, err := c.qp.NewWindow()
	return w, c.mask(err)
}

func (c *faultyConn) PostRecv(wr []verbs.RecvWR) (int, error) {
	n, err := c.qp.PostRecv(wr)
	return n, c.mask(err)
}

// PostSend counts Sends, and stops before one on which the connection is cut.
func (c *faultyConn) PostSend(wr []verbs.SendWR) (int, error) {
	changed := wr
	cut := false
	c.f.mu.Lock()
	for i := range wr {
		if wr[i].Op != verbs.OpSend && wr[i].Op != verbs.OpSendInvalidate {
			continue
		}
		if countDown(&c.f.cutSends) {
			changed, cut = changed[:i], true
			break
		}
		if countDown(&c.f.swallow) {
			// A zero-length Write takes its place and does nothing.
			if &changed[0] == &wr[0] {
				changed = append([]verbs.SendWR(nil), wr...)
			}
			changed[i] = verbs.SendWR{ID: wr[i].ID, Op: verbs.OpWrite, Signaled: wr[i].Signaled}
			c.f.swallowed++
			if wr[i].Signaled {
				c.hide(wr[i].ID)
			}
		}
	}
	c.f.mu.Unlock()
	n, err := 0, error(nil)
	if len(changed) > 0 {
		n, err = c.qp.PostSend(changed)
	}
	if cut && err == nil {
		c.cut()
		err = c.fault()
	}
	return n, c.mask(err)
}

// PostAndReap leaves all completions to Wait, where the faults are.
func (c *faultyConn) PostAndReap(wr []verbs.SendWR, _ []verbs.Completion) (posted, reaped int, err error) {
	posted, err = c.PostSend(wr)
	return posted, 0, err
}

// countDown reports whether this was the event that n counted down to.
func countDown(n *int) bool {
	if *n == 0 {
		return false
	}
	*n--
	return *n == 0
}

func (c *faultyConn) hide(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hidden == nil {
		c.hidden = make(map[uint64]int)
	}
	c.hidden[id]++
}

// reveal restores the Op of the completion of a swallowed Send.
func (c *faultyConn) reveal(wc []verbs.Completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range wc {
		if wc[i].Op == verbs.OpWrite && c.hidden[wc[i].ID] > 0 {
			c.hidden[wc[i].ID]--
			wc[i].Op = verbs.OpSend
		}
	}
}

func (c *faultyConn) Wait(ctx context.Context, wc []verbs.Completion) (int, error) {
	if len(c.late) == 0 {
		n, err := c.qp.Wait(ctx, wc)
		if err != nil {
			return n, c.mask(err)
		}
		c.took(wc[:n])
	}
	delay, hold := c.f.lateness()
	if hold != nil {
		select {
		case <-hold:
		case <-c.gone:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if delay > 0 {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.gone:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return c.deliver(wc), nil
}

// took keeps completions in c.late, and counts them.
func (c *faultyConn) took(wc []verbs.Completion) {
	c.reveal(wc)
	c.late = append(c.late[:0], wc...)
	cut := false
	c.f.mu.Lock()
	for range wc {
		cut = countDown(&c.f.cutWaits) || cut
	}
	c.f.mu.Unlock()
	if cut {
		c.cut()
	}
}

// deliver moves what is late to wc.
func (c *faultyConn) deliver(wc []verbs.Completion) int {
	n := copy(wc, c.late)
	c.late = c.late[n:]
	return n
}

// cut ends the connection as a broken wire would.
func (c *faultyConn) cut() {
	c.mu.Lock()
	first := !c.isCut
	c.isCut = true
	c.mu.Unlock()
	if first {
		c.f.set(func() { c.f.cuts++ })
		c.end()
	}
}

func (c *faultyConn) fault() error {
	e := &verbs.ConnError{Op: "cut", Err: ErrFault}
	if c.inner != nil {
		e.Remote = c.inner.RemoteAddr()
	}
	return e
}

// mask turns the closing of a cut connection into its loss.
func (c *faultyConn) mask(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut && errors.Is(err, verbs.ErrClosed) {
		return c.fault()
	}
	return err
}

func (c *faultyConn) end() error {
	c.once.Do(func() {
		close(c.gone)
		c.f.set(func() { delete(c.f.connections, c) })
	})
	if c.inner == nil {
		return nil
	}
	return c.inner.Close()
}

// Close ends a cut connection for good: it is closed then, no longer lost.
func (c *faultyConn) Close() error {
	err := c.end()
	c.mu.Lock()
	c.isCut = false
	c.mu.Unlock()
	return err
}

func (c *faultyConn) LocalAddr() netip.AddrPort  { return c.inner.LocalAddr() }
func (c *faultyConn) RemoteAddr() netip.AddrPort { return c.inner.RemoteAddr() }
func (c *faultyConn) PrivateData() []byte        { return c.f.privateData(c.inner.PrivateData()) }
func (c *faultyConn) ReadsOut() int              { return c.inner.ReadsOut() }
