package rc

import (
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/provider"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// entry is a posted work request.
type entry struct {
	op       verbs.Op
	id       uint64
	signaled bool
	local    mem.Vec // a copy of Local
	total    int
	rkey     uint32
	addr     uint64
	// seq is the number of its first packet of count; none for what needs no
	// wire.
	seq   uint64
	count int
}

// PostSend appends a work request; w is its Window as the queue pair knows it.
func (q *QP) PostSend(wr *verbs.SendWR, w *Window) error {
	if q.err != nil {
		return q.err
	}
	r := &q.req
	if r.ring.len()-r.probes+q.signaled >= q.config.SendQueue {
		return verbs.ErrQueueFull
	}
	e := r.ring.grow()
	if why := q.prepare(e, wr, w); why != "" {
		r.ring.shrink()
		return &verbs.UsageError{Op: wr.Op, Why: why}
	}
	e.seq = r.end
	r.end += uint64(e.count)
	q.retire()
	return nil
}

// prepare makes e of wr, and executes what needs no wire. It returns what is
// wrong with wr.
func (q *QP) prepare(e *entry, wr *verbs.SendWR, w *Window) (why string) {
	*e = entry{
		op: wr.Op, id: wr.ID, signaled: wr.Signaled || wr.Op == verbs.OpRead,
		rkey: wr.RKey, addr: wr.Addr, local: append(e.local[:0], wr.Local...),
	}
	if len(wr.Local) > MaxSGE {
		return "too many segments"
	}
	var va uint64
	for _, s := range wr.Local {
		at, ok := q.config.Address(s)
		if !ok {
			return "segment is not in registered memory"
		}
		if s.Len > MaxMessage-e.total {
			return "message too long"
		}
		va = at
		e.total += s.Len
	}
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpWrite, verbs.OpRead:
		if q.state == Idle {
			return "not connected yet"
		}
	}
	if why := provider.CheckSend(wr, e.total, q.peer.ReadsOut); why != "" {
		return why
	}
	switch wr.Op {
	case verbs.OpBind:
		switch {
		case w == nil || w.q != q:
			return "window of another connection"
		case w.freed:
			return "window was freed"
		case w.reserved == 0:
			return "no key reserved with Next"
		case w.key != 0:
			return "window is bound"
		}
		q.memory.bind(w, wr.Local[0], va, wr.Access)
		return ""
	case verbs.OpLocalInvalidate:
		q.memory.invalidate(wr.RKey)
		return ""
	}
	e.count = packet.Count(e.total, q.peer.MTU)
	return ""
}

// retire completes what lies before una.
func (q *QP) retire() {
	r := &q.req
	for r.ring.len() > 0 {
		e := r.ring.at(0)
		if r.una < e.seq+uint64(e.count) {
			return
		}
		switch {
		case e.op == opProbe:
			r.probes--
		case e.signaled:
			q.signaled++
			q.done.push(verbs.Completion{ID: e.id, Op: e.op})
		}
		r.ring.pop()
		r.next = max(r.next, r.ring.head)
	}
}

// opProbe is a zero-length WRITE that checks whether the peer is there.
const opProbe verbs.Op = 0xff

// probeAfter is how long a silent connection is considered alive.
const probeAfter = 20 * time.Second

// probeAt is when to ask.
func (q *QP) probeAt() time.Duration {
	if q.state != Established || q.req.una != q.req.end || q.req.probes > 0 {
		return Never
	}
	return q.heard + probeAfter
}

func (q *QP) probe() {
	r := &q.req
	*r.ring.grow() = entry{op: opProbe, seq: r.end, count: 1}
	r.end++
	r.probes++
}
