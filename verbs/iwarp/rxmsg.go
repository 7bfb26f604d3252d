package iwarp

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
)

var noDeadline time.Time

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func trailerCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// receives is the receive queue.
type receives struct {
	// unreaped counts completions that Wait has not returned.
	unreaped atomic.Int32

	mu         sync.Mutex
	ring       []verbs.RecvWR
	head, tail uint64
}

// PostRecv implements verbs.QP.
func (c *conn) PostRecv(wr []verbs.RecvWR) (posted int, err error) {
	if err := c.ended(); err != nil {
		return 0, err
	}
	q := &c.rq
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range wr {
		if int(q.tail-q.head)+int(q.unreaped.Load()) >= len(q.ring) {
			return posted, verbs.ErrQueueFull
		}
		if _, ok := c.dev.Address(wr[i].Buf); !ok {
			return posted, &verbs.UsageError{Op: verbs.OpRecv, Why: "buffer is not in registered memory"}
		}
		q.ring[q.tail%uint64(len(q.ring))] = wr[i]
		q.tail++
		posted++
	}
	return posted, nil
}

// take is the next receive. It counts as unreaped from now on.
func (q *receives) take() (wr verbs.RecvWR, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == q.tail {
		return wr, false
	}
	wr = q.ring[q.head%uint64(len(q.ring))]
	q.head++
	q.unreaped.Add(1)
	return wr, true
}

// begin checks the header of an FPDU and finds the place of its payload.
func (r *receiver) begin() error {
	switch h := &r.h; h.op {
	case opWrite:
		return r.beginWrite()
	case opReadResponse:
		return r.beginResponse()
	case opReadRequest:
		switch {
		case h.qn != queueRead:
			return violate(ddpQueue, "Read Request on queue %d", h.qn)
		case h.msn != r.readMSN:
			return violate(ddpMSN, "Read Request %d, want %d", h.msn, r.readMSN)
		case h.mo != 0:
			return violate(ddpOffset, "Read Request at offset %d", h.mo)
		case h.payload() != readReqBody || !h.last:
			return violate(ddpTooLong, "Read Request with %d bytes", h.payload())
		}
		r.dst = r.ctl[:readReqBody]
		return nil
	case opTerminate:
		if h.qn != queueTerminate {
			return violate(ddpQueue, "Terminate on queue %d", h.qn)
		}
		if h.payload() > ctlSize {
			return violate(ddpTooLong, "Terminate with %d bytes", h.payload())
		}
		r.ctlLen = h.payload()
		r.dst = r.ctl[:r.ctlLen]
		return nil
	}
	return r.beginSend()
}

func (r *receiver) beginSend() error {
	h := &r.h
	switch {
	case h.qn != queueSend:
		return violate(ddpQueue, "Send on queue %d", h.qn)
	case h.msn != r.sendMSN:
		return violate(ddpMSN, "Send %d, want %d", h.msn, r.sendMSN)
	case uint64(h.mo) != uint64(r.sendOff):
		return violate(ddpOffset, "Send at offset %d, want %d", h.mo, r.sendOff)
	}
	if !r.sendOpen {
		wr, ok := r.c.rq.take()
		if !ok {
			return violate(ddpNoBuffer, "Send %d met no receive", h.msn)
		}
		r.recv, r.sendOpen, r.sendOp, r.sendInv = wr, true, h.op, h.inv
	}
	n := h.payload()
	switch {
	case h.op != r.sendOp || h.inv != r.sendInv:
		return violate(rdmapOpcode, "Send that changes its kind on the way")
	case n == 0 && !h.last:
		return violate(mpaFraming, "empty FPDU in the middle of a Send")
	case n > r.recv.Buf.Len-r.sendOff:
		return violate(ddpTooLong, "Send of more than the %d bytes of the receive", r.recv.Buf.Len)
	}
	if n > 0 {
		r.dst = r.recv.Buf.Slice(r.sendOff, n).Bytes()
	}
	return nil
}

func (r *receiver) beginWrite() error {
	h := &r.h
	n := h.payload()
	switch {
	case r.readOpen:
		return violate(rdmapOpcode, "Write inside a Read Response")
	case r.writeOpen && (h.stag != r.writeSTag || h.to != r.writeTO):
		return violate(ddpBounds, "Write that goes on elsewhere")
	case n == 0 && !h.last:
		return violate(mpaFraming, "empty FPDU in the middle of a Write")
	case n == 0:
		// Of a zero-length message key and address are not checked (RFC 5040 section 5.1).
		return nil
	}
	w, seg, err := r.c.memory.reach(h.stag, h.to, n, verbs.RemoteWrite, &writeFaults)
	if err != nil {
		return err
	}
	r.window, r.dst = w, seg.Bytes()
	return nil
}

func (r *receiver) beginResponse() error {
	h := &r.h
	n := h.payload()
	if r.writeOpen {
		return violate(rdmapOpcode, "Read Response inside a Write")
	}
	e := r.c.tx.read()
	switch {
	case e == nil:
		return violate(rdmapOpcode, "Read Response without a Read")
	case h.stag != e.sinkSTag:
		return violate(ddpInvalidSTag, "Read Response for sink %#x, want %#x", h.stag, e.sinkSTag)
	case h.to != uint64(e.placed) || n > e.total-e.placed || h.last != (e.placed+n == e.total):
		return violate(ddpBounds, "Read Response with %d bytes at %d, after %d of %d", n, h.to, e.placed, e.total)
	case n == 0 && !h.last:
		return violate(mpaFraming, "empty FPDU in the middle of a Read Response")
	}
	if n > 0 {
		r.dst = e.local[0].Slice(e.placed, n).Bytes()
	}
	return nil
}

// finish acts on an FPDU that is complete and good.
func (r *receiver) finish() error {
	c, h := r.c, &r.h
	r.opened()
	n := h.payload()
	switch h.op {
	case opWrite:
		r.writeOpen, r.writeSTag, r.writeTO = !h.last, h.stag, h.to+uint64(n)
		return nil
	case opReadResponse:
		c.tx.read().placed += n
		if r.readOpen = !h.last; h.last && c.tx.readDone() {
			c.transmitSome(false, 1)
		}
		return nil
	case opReadRequest:
		r.readMSN++
		return r.finishRequest()
	case opTerminate:
		return parseTerminate(r.ctl[:r.ctlLen])
	}
	r.sendOff += n
	if !h.last {
		return nil
	}
	wc := verbs.Completion{ID: r.recv.ID, Op: verbs.OpRecv, Len: r.sendOff}
	if h.op == opSendInvalidate || h.op == opSendSolicitedInvalidate {
		found, broken := c.memory.invalidate(h.inv)
		if !found {
			return violate(rdmapInvalidate, "key %#x", h.inv)
		}
		if broken {
			return errRevoked
		}
		wc.Invalidated, wc.InvalidatedKey = true, h.inv
	}
	r.sendMSN++
	r.sendOff, r.sendOpen, r.recv = 0, false, verbs.RecvWR{}
	c.cq.push(wc)
	return nil
}

// finishRequest checks a Read Request and leaves it to the send side.
func (r *receiver) finishRequest() error {
	c := r.c
	a := response{req: parseReadRequest(r.ctl[:])}
	n := a.req.length
	if n > maxMessage || uint64(a.req.sinkTO) > ^uint64(0)-uint64(n) {
		return violate(rdmapBounds, "Read of %d bytes", n)
	}
	if n > 0 {
		var err error
		a.window, a.seg, err = c.memory.reach(a.req.srcSTag, a.req.srcTO, int(n), verbs.RemoteRead, &readFaults)
		if err != nil {
			return err
		}
	}
	t := &c.tx
	t.mu.Lock()
	full := len(t.answers) >= c.readsIn
	if !full {
		t.answers = append(t.answers, a)
	}
	t.mu.Unlock()
	if full {
		return violate(rdmapStream, "more than %d Reads outstanding", c.readsIn)
	}
	c.transmitSome(false, 1)
	return nil
}

// opened lets the accepting side send, after the dialing side has.
func (r *receiver) opened() {
	if r.open {
		return
	}
	r.open = true
	t := &r.c.tx
	t.mu.Lock()
	first := !t.open
	t.open = true
	t.mu.Unlock()
	if first {
		r.c.transmitSome(false, 1)
	}
}
