package requester

import (
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/layout"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/stall"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// slotState is where a slot's exchange stands.
type slotState uint8

const (
	// slotIdle: on the free list.
	slotIdle slotState = iota
	// slotWaiting: taken by a call whose reply has not come.
	slotWaiting
	// slotReplied: the reply is in the slot, for the caller to see.
	slotReplied
	// slotAbandoned: the caller is giving up; it still works on the keys.
	slotAbandoned
	// slotLate: the reply came while the caller was giving up.
	slotLate
	// slotDetached: the caller is gone; slot and credit wait for the reply.
	slotDetached
	// slotDraining: as slotDetached, but the reply has come, and the Send has not completed.
	slotDraining
)

// HeaderLen is more than the longest header that a plan makes, so that every
// one fits the least of inline thresholds: 16 read segments, and write chunks of
// as many with a segment of padding each.
const HeaderLen = wire.MinInline

// ScratchLen is that of a slot's scratch memory.
const ScratchLen = 8

// CopyInline is the payload size up to which copying it into an inline call
// costs less than waiting for the Send's completion, after which the
// caller's memory is not needed any more.
const CopyInline = 1024

// slot is what one outstanding call needs of a connection: registered buffers, and
// memory that is used over and over.
type slot struct {
	index int
	// header and call are the buffers of a call's transport header and inline
	// stream; scratch takes the padding that a responder may write.
	header, call, scratch mem.Seg
	// waiter wakes the caller when something happened that it may wait for, or it is its turn to receive.
	waiter turn.Waiter
	Sender

	// What follows belongs to the caller's goroutine.

	cw, hw  xdr.Writer
	r       xdr.Reader
	terms   plan.Terms // in force when the call was marshalled
	demands plan.Demands
	shape   plan.Shape
	plan    plan.Plan
	request wire.Msg
	// segs backs the chunks of request.
	segs []wire.Segment
	// runs are the payloads' segments, adjacent ones made one; send and recv
	// are each payload's stretch of it.
	runs       []mem.Seg
	send, recv []span
	pieces     []piece
	chunks     [plan.MaxChunks]wire.Chunk
	ends       [plan.MaxChunks]int // of the chunks, in segs
	local      []mem.Seg
	// binds are the keys of the first requests to be posted.
	binds  []key
	placed []int
	// spare is a window that nothing is bound to, taken together with the slot.
	spare verbs.Window
	// exposed: with region keys, the peer was told where to write or read.
	exposed bool
	// lease is the long buffer of this call, if any; longCall and longReply
	// are its parts.
	lease, longCall, longReply mem.Seg

	// What follows is guarded by Requester.mu.

	state slotState
	xid   uint32
	// share is what the credit is held for; the caller sets it.
	share credit.Share
	// keys are those the peer may still use, until they are invalid.
	keys []key
	// reply, headerLen and replyLen describe the reply in receive buffer buf,
	// which the slot owns; fault is set instead when it could not be parsed.
	reply               wire.Msg
	headerLen, replyLen int
	buf                 int
	// layout says where the data of the reply stands.
	layout layout.Received
	fault  error
	// sending and invalidating are completions still to come.
	sending, invalidating bool
}

// Sender is what posting needs: the work requests, and until when the peer has to take them.
type Sender struct {
	WRs      []verbs.SendWR
	Deadline stall.Deadline
}

// span is the segments from to to of slot.runs.
type span struct{ from, to int }

// piece is a stretch of a call: of its stream, or of a payload.
type piece struct {
	seg    mem.Seg
	stream bool
}

// key is a bound window.
type key struct {
	window  verbs.Window
	rkey    uint32
	invalid bool
}

// wake has the caller look at the slot again.
func (s *slot) wake() { s.waiter.Wake() }

// addRuns appends v's segments to s.runs, without empty ones and with adjacent
// ones made one.
func (s *slot) addRuns(v mem.Vec) span {
	from := len(s.runs)
	for _, seg := range v {
		if seg.Len == 0 {
			continue
		}
		if n := len(s.runs); n > from {
			last := &s.runs[n-1]
			if last.Arena == seg.Arena && last.Off+last.Len == seg.Off {
				last.Len += seg.Len
				continue
			}
		}
		s.runs = append(s.runs, seg)
	}
	return span{from, len(s.runs)}
}

// cut lists in s.pieces what a call laid out in stream consists of, with the
// payloads where they stand but for the reduced ones.
func (s *slot) cut(stream mem.Seg, marks []xdr.Mark, reduced plan.Set) {
	s.pieces = s.pieces[:0]
	at, shift := 0, 0
	for i, m := range marks {
		if m.Len == 0 || reduced.Has(i) {
			continue
		}
		if end := m.Off + shift; end > at {
			s.pieces = append(s.pieces, piece{stream.Slice(at, end-at), true})
			at = end
		}
		for _, seg := range s.runs[s.send[i].from:s.send[i].to] {
			s.pieces = append(s.pieces, piece{seg, false})
		}
		shift += xdr.Pad(m.Len)
	}
	if stream.Len > at {
		s.pieces = append(s.pieces, piece{stream.Slice(at, stream.Len-at), true})
	}
}

// takeSlot counts an exchange in and takes a slot; the caller has a credit, so there is one, unless the connection has ended or
// a call with the same XID is outstanding, if only for its reply.
func (r *Requester) takeSlot(xid uint32) (*slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.done:
		return nil, credit.ErrEnded
	default:
	}
	if r.slots[xid] != nil {
		return nil, ErrBusyXID
	}
	r.users.Add(1)
	n := len(r.free)
	s := r.free[n-1]
	r.free = r.free[:n-1]
	s.state, s.xid, s.fault = slotWaiting, xid, nil
	s.sending, s.invalidating = false, false
	s.terms = r.terms()
	if n := len(r.windows); n > 0 {
		s.spare, r.windows = r.windows[n-1], r.windows[:n-1]
	}
	r.slots[xid] = s
	return s, nil
}

// putSlot puts a slot back. r.mu is held; the caller releases the credit after.
func (r *Requester) putSlot(s *slot) {
	delete(r.slots, s.xid)
	r.putSpare(s)
	s.waiter.Clear()
	s.state = slotIdle
	r.free = append(r.free, s)
}

// takeWindow takes the slot's spare window, or else another.
func (r *Requester) takeWindow(s *slot) (verbs.Window, error) {
	if w := s.spare; w != nil {
		s.spare = nil
		return w, nil
	}
	r.mu.Lock()
	if n := len(r.windows); n > 0 {
		w := r.windows[n-1]
		r.windows = r.windows[:n-1]
		r.mu.Unlock()
		return w, nil
	}
	r.mu.Unlock()
	return r.conn.NewWindow()
}

// putSpare gives the slot's spare window back. r.mu is held.
func (r *Requester) putSpare(s *slot) {
	if s.spare != nil {
		r.windows = append(r.windows, s.spare)
		s.spare = nil
	}
}

// answered reports whether the reply to the call in s has come. Requester.mu is held.
func (s *slot) answered() bool {
	return s.state == slotReplied || s.state == slotLate || s.state == slotDraining
}
