package iwarp

import (
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/provider"
)

// maxPayload is the payload of one FPDU: whole pages, and with any header
// within the 16 bits of the length field.
const maxPayload = 15 << 12

// sendEntry is a posted work request.
type sendEntry struct {
	verbs.SendWR
	local  mem.Vec // a copy of Local
	total  int
	window *window
	bind   uint32 // the key that an OpBind makes valid
	base   uint64 // the address that goes with it
	done   bool

	// The sink that a Read Request names and its response must echo.
	sinkSTag uint32
	placed   int
}

// response is a Read Request of the peer's, checked, that waits for the wire.
type response struct {
	req    readRequest
	window *window
	seg    mem.Seg
}

// transmitter is the send side. The wire is held by one goroutine at a time,
// the one that set busy; it alone uses out.
type transmitter struct {
	c   *conn
	out batch
	// unreaped counts completions of signaled requests that Wait has not
	// returned; their places in the queue are taken.
	unreaped atomic.Int32

	mu   sync.Mutex
	idle sync.Cond // busy became false
	// ring holds requests head..tail; those before next have been taken to
	// the wire.
	ring             []sendEntry
	head, next, tail uint64
	// reads are the ring positions of Reads on the wire, oldest first.
	reads []uint64
	// answers are the peer's Reads, at most readsIn of them.
	answers []response
	// turn counts answers sent in a row while requests waited.
	turn int
	// open: the first-message rule lets this side send.
	open bool
	// busy: a goroutine holds the wire. stalled: the socket was full, and only
	// runTransmit goes on.
	busy, stalled bool
	// probe: a zero-length Write is to be sent.
	probe bool
	// err is why the socket takes no more.
	err error

	sendMSN, readMSN uint32
	sinkSTag         uint32
}

func (t *transmitter) init(c *conn, depth int) {
	t.c = c
	t.idle.L = &t.mu
	t.ring = make([]sendEntry, depth)
	t.sendMSN, t.readMSN = 1, 1
	t.out.init(c)
}

// answersPerTurn is how many Read Responses may precede a waiting request.
const answersPerTurn = 4

// PostSend implements verbs.QP.
func (c *conn) PostSend(wr []verbs.SendWR) (posted int, err error) {
	t := &c.tx
	broken := false
	t.mu.Lock()
	for i := range wr {
		if err = c.ended(); err != nil {
			break
		}
		if t.err != nil {
			err = c.lost("send", t.err)
			break
		}
		if int(t.tail-t.head)+int(t.unreaped.Load()) >= len(t.ring) {
			err = verbs.ErrQueueFull
			break
		}
		e := &t.ring[t.tail%uint64(len(t.ring))]
		if err = e.set(c, &wr[i]); err != nil {
			break
		}
		t.tail++
		posted++
		if e.Op == verbs.OpLocalInvalidate {
			// A full wire must not keep the peer's access alive. The request
			// is executed again in the queue, as the bind may be ahead of it.
			_, b := c.memory.invalidate(e.RKey)
			broken = broken || b
		}
	}
	t.mu.Unlock()
	if broken {
		c.abort("send", errRevoked)
	}
	if posted > 0 {
		c.transmit(false)
	}
	return posted, err
}

// PostAndReap implements verbs.QP. Mostly the socket takes what is posted at
// once, and the poster reaps the completion without waking Wait.
func (c *conn) PostAndReap(wr []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	c.cq.hold()
	posted, err = c.PostSend(wr)
	reaped = c.cq.release(wc)
	c.tx.unreaped.Add(int32(-reaped))
	return posted, reaped, err
}

// set checks wr and makes e of it.
func (e *sendEntry) set(c *conn, wr *verbs.SendWR) error {
	bad := func(why string) error { return &verbs.UsageError{Op: wr.Op, Why: why} }
	e.SendWR = *wr
	e.local = append(e.local[:0], wr.Local...)
	e.Local, e.Window = nil, nil
	e.total, e.done, e.placed, e.window = 0, false, 0, nil
	if len(wr.Local) > maxSGE {
		return bad("too many segments")
	}
	for _, s := range wr.Local {
		if _, ok := c.dev.Address(s); !ok {
			return bad("segment is not in registered memory")
		}
		if s.Len > maxMessage-e.total {
			return bad("message too long")
		}
		e.total += s.Len
	}
	if why := provider.CheckSend(wr, e.total, c.readsOut); why != "" {
		return bad(why)
	}
	switch wr.Op {
	case verbs.OpRead:
		e.Signaled = true
	case verbs.OpBind:
		var why string
		if e.window, e.bind, why = c.memory.prepareBind(wr, c); why != "" {
			return bad(why)
		}
		e.base, _ = c.dev.Address(wr.Local[0])
	}
	return nil
}

// take moves the next message to m and reports whether there was one. Requests
// that need no wire are executed on the way. Only the holder of the wire calls it.
func (t *transmitter) take(m *message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open && t.probe {
		t.probe = false
		*m = message{op: opWrite}
		return true
	}
	if t.turn < answersPerTurn && t.takeAnswer(m) {
		return true
	}
	t.turn = 0
	for {
		if t.next == t.tail {
			return t.takeAnswer(m)
		}
		e := &t.ring[t.next%uint64(len(t.ring))]
		switch e.Op {
		case verbs.OpBind:
			t.c.memory.bind(e.window, e.bind, e.local[0], e.base, e.Access)
			t.next++
			t.finish(e)
			continue
		case verbs.OpLocalInvalidate:
			// If that breaks an answer, its next FPDU or write detects it.
			t.c.memory.invalidate(e.RKey)
			t.next++
			t.finish(e)
			continue
		case verbs.OpRead:
			if len(t.reads) >= t.c.readsOut {
				return t.takeAnswer(m)
			}
		}
		if !t.open {
			return false
		}
		t.next++
		m.request(e)
		switch e.Op {
		case verbs.OpRead:
			t.reads = append(t.reads, t.next-1)
			t.sinkSTag++
			e.sinkSTag = t.sinkSTag
			m.msn = t.readMSN
			t.readMSN++
		case verbs.OpSend, verbs.OpSendInvalidate:
			m.msn = t.sendMSN
			t.sendMSN++
		}
		return true
	}
}

// takeAnswer moves the oldest Read of the peer's to m, if there is one. mu is
// locked.
func (t *transmitter) takeAnswer(m *message) bool {
	if !t.open || len(t.answers) == 0 {
		return false
	}
	t.turn++
	m.answer(&t.answers[0])
	// Moving them down keeps the slice's memory; there are readsIn at most.
	t.answers = append(t.answers[:0], t.answers[1:]...)
	return true
}

// finish marks e as done, and delivers the completions that are due: those of
// requests before which every request is done. mu is locked.
func (t *transmitter) finish(e *sendEntry) {
	e.done = true
	for t.head != t.next {
		h := &t.ring[t.head%uint64(len(t.ring))]
		if !h.done {
			return
		}
		t.head++
		if h.Signaled {
			t.unreaped.Add(1)
			t.c.cq.push(verbs.Completion{ID: h.ID, Op: h.Op})
		}
	}
}

// read is the oldest Read on the wire, nil when there is none. It stays valid
// until readDone, as only the receive side ends Reads.
func (t *transmitter) read() *sendEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.reads) == 0 {
		return nil
	}
	return &t.ring[t.reads[0]%uint64(len(t.ring))]
}

// readDone completes the oldest Read and reports whether requests may have
// waited for that.
func (t *transmitter) readDone() (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.ring[t.reads[0]%uint64(len(t.ring))]
	t.reads = append(t.reads[:0], t.reads[1:]...)
	t.finish(e)
	return t.next != t.tail
}

// cause is why sending failed, or else err, with which reading failed.
func (t *transmitter) cause(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	return err
}

// mayTerminate reports whether the wire of a dead connection is between FPDUs.
// A Terminate message only ever answers something that the peer sent, so the
// first-message rule has been met.
func (t *transmitter) mayTerminate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.busy && t.err == nil && !t.out.started
}
