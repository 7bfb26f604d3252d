package requester

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/layout"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// Replies by read chunks (RFC 5666 section 3.8), taken when
// Corners.ReadReplies is set: calls then offer no chunks for their replies,
// and what a reply does not hold inline its caller fetches by RDMA Read. Then
// it sends RDMA_DONE, under the credit of the call, which is given back
// afterwards: so the outstanding messages never exceed the grant.

// fetching is what a slot has for a reply by read chunks.
type fetching struct {
	// reads is how many RDMA Reads have not completed.
	reads int
	// doneDue: a reply that came too late has read chunks, and RDMA_DONE has not been sent for it.
	doneDue bool
}

// byReadChunks reports whether the reply in s is to be fetched.
func byReadChunks(s *slot) bool {
	return s.terms.ReadReplies && s.fault == nil && len(s.reply.Lists.Read) > 0
}

// fetch pulls the read chunks of the reply in s, and releases them.
func (r *corners) fetch(ctx context.Context, s *slot) error {
	if !byReadChunks(s) {
		return nil
	}
	err := r.pull(ctx, s)
	r.release(s)
	if err != nil {
		return r.pullFailed(err)
	}
	return nil
}

// awaits reports whether a message with a read list is a reply, for replies by
// read chunks are allowed and a call waits for one. Requester.mu is held.
func (r *corners) awaits(m *wire.Msg) bool {
	s := r.slots[m.XID]
	return s != nil && s.terms.ReadReplies && m.Proc == wire.ProcNoMsg
}

// tooLate takes a reply to a call that was given up. If it has read chunks, RDMA_DONE is due. Requester.mu is held.
func (r *corners) tooLate(s *slot, reply *wire.Msg) {
	if s.terms.ReadReplies && len(reply.Lists.Read) > 0 {
		r.fetches[s.index].doneDue = true
	}
}

// takeDone reports whether RDMA_DONE is due for s, once. Requester.mu is held.
func (r *corners) takeDone(s *slot) bool {
	if r.undone == nil {
		return false
	}
	f := &r.fetches[s.index]
	due := f.doneDue
	f.doneDue = false
	return due
}

// releaseLater has runDone release the chunks of the reply to s, for which nobody waits any more.
func (r *corners) releaseLater(s *slot) { r.undone <- s }

// read handles the completion of an RDMA Read of that number, and returns the slot whose last one
// it was. Requester.mu is held.
func (r *corners) read(i int) *slot {
	f := &r.fetches[i]
	if f.reads--; f.reads > 0 {
		return nil
	}
	s := &r.all[i]
	s.sending = false
	return s
}

// pull fetches the read chunks of the reply in s into a long buffer. What the
// reply claims to be is bounded by what the call allows it to be.
func (r *corners) pull(ctx context.Context, s *slot) error {
	limit := s.shape.ReplyHead + len(s.reply.Lists.Read)*(plan.Align+4)
	for _, it := range s.shape.Recv {
		limit += it.Padded()
	}
	chunks, total, err := plan.Pull(nil, &s.reply, s.replyLen-s.headerLen, limit)
	if err != nil {
		return badReply("%v", err)
	}
	r.releaseLong(s) // that of a long call has served
	if s.lease, err = r.conn.Lend(ctx, total); err != nil {
		return err
	}
	most := r.MaxMessage
	s.WRs, s.local = s.WRs[:0], s.local[:0]
	for _, c := range chunks {
		off := c.Off
		for _, seg := range s.reply.Lists.Read[c.First:c.Last] {
			for done := 0; done < int(seg.Length); {
				n := min(int(seg.Length)-done, most)
				s.local = append(s.local, s.lease.Slice(off, n))
				k := len(s.local)
				s.WRs = append(s.WRs, verbs.SendWR{ID: r.readID(s.index), Op: verbs.OpRead, Signaled: true,
					Local: s.local[k-1 : k : k], RKey: seg.Handle, Addr: seg.Offset + uint64(done)})
				off, done = off+n, done+n
			}
		}
		s.layout.Chunks = append(s.layout.Chunks, layout.Chunk{Pos: c.Pos, Data: s.lease.Slice(c.Off, c.Len).Bytes()})
	}
	for all := s.WRs; len(all) > 0; all = all[len(s.WRs):] {
		reads := r.Reads()
		if reads == 0 {
			return badReply("it has read chunks, and the server serves no RDMA Read")
		}
		s.WRs = all[:min(len(all), reads)]
		r.mu.Lock()
		r.fetches[s.index].reads, s.sending = len(s.WRs), true
		r.mu.Unlock()
		if _, err := r.conn.Post(ctx, &s.Sender, nil); err != nil {
			r.conn.Fail(err)
		}
		r.awaitCompletions(ctx, s)
		if r.conn.Err() != nil {
			return credit.ErrEnded
		}
	}
	r.count.ReadReplies.Add(1)
	return nil
}

// pullFailed is the error of a call whose reply could not be fetched.
func (r *corners) pullFailed(err error) error {
	var bad *badReplyError
	if !errors.As(err, &bad) {
		return r.failure(transport.Unknown, err)
	}
	r.noteUseless()
	return &transport.Error{Fate: transport.Answered, Err: err}
}

// release sends RDMA_DONE: the chunks of the reply to s are not needed any more.
func (r *corners) release(s *slot) {
	ctx := context.Background()
	h := wire.Done{Header: wire.Header{XID: s.xid, Version: wire.Version1, Credits: uint32(r.credits.Requested), Proc: wire.ProcDone}}
	s.hw.Reset(s.header.Bytes(), nil)
	h.Append(&s.hw)
	s.local = append(s.local[:0], s.header.Slice(0, len(s.hw.Bytes())))
	s.WRs = append(s.WRs[:0], verbs.SendWR{ID: sendID(s), Op: verbs.OpSend, Signaled: true, Local: s.local})
	r.mu.Lock()
	s.sending = true
	r.mu.Unlock()
	if _, err := r.conn.Post(ctx, &s.Sender, nil); err != nil {
		r.conn.Fail(err)
	}
	r.awaitCompletions(ctx, s)
}

// runDone sends RDMA_DONE for the replies that nobody waits for any more, until
// the connection ends. It is one of r.users.
func (r *corners) runDone() {
	defer r.users.Done()
	for {
		select {
		case s := <-r.undone:
			r.release(s)
			r.finish(s)
		case <-r.done:
			return
		}
	}
}
