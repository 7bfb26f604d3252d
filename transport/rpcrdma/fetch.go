package rpcrdma

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// Replies by read chunks (RFC 5666 section 3.8), taken when
// DialerConfig.ReadReplies is set: calls then offer no chunks for their replies,
// and what a reply does not hold inline its caller fetches by RDMA Read. Then
// it sends RDMA_DONE, under the credit of the call, which is given back
// afterwards: so the messages under way never exceed the grant.

// readsOut is how many RDMA Reads a link has outstanding.
const readsOut = 16

// fetching is what a slot has for a reply by read chunks.
type fetching struct {
	// reads is how many RDMA Reads have not completed.
	reads int
	// owing is set when a reply that came too late wants an RDMA_DONE.
	owing bool
}

// byReadChunks reports whether the reply in s is to be fetched.
func byReadChunks(s *slot) bool {
	return s.terms.ReadReplies && s.fault == nil && len(s.reply.Lists.Read) > 0
}

// fetch pulls the read chunks of the reply in s, and releases them.
func (l corners) fetch(ctx context.Context, s *slot) error {
	if !byReadChunks(s) {
		return nil
	}
	err := l.pull(ctx, s)
	l.release(s)
	if err != nil {
		return l.pullFailed(err)
	}
	return nil
}

// awaits reports whether a message with a read list is a reply, for replies by
// read chunks are allowed and a call waits for one. l.mu is held.
func (l corners) awaits(m *wire.Msg) bool {
	s := l.slots[m.XID]
	return s != nil && s.terms.ReadReplies && m.Proc == wire.ProcNoMsg
}

func (l corners) tooLate(s *slot, reply *wire.Msg) {
	if s.terms.ReadReplies && len(reply.Lists.Read) > 0 {
		l.fetches[s.index].owing = true
	}
}

func (l corners) owes(s *slot) bool {
	if l.undone == nil {
		return false
	}
	f := &l.fetches[s.index]
	was := f.owing
	f.owing = false
	return was
}

// owed has runDone release the chunks of the reply to s, for which nobody waits any more.
func (l corners) owed(s *slot) { l.undone <- s }

// readID is the ID of the RDMA Reads for s: it follows those of all other work requests.
func (l corners) readID(s *slot) uint64 { return l.controlID() + uint64(1+s.index)<<1 }

// read handles the completion of an RDMA Read of that number, of the IDs of reads, and returns the slot whose last one
// it was. l.mu is held.
func (l corners) read(i int) *slot {
	f := &l.fetches[i]
	if f.reads--; f.reads > 0 {
		return nil
	}
	s := &l.all[i]
	s.sending = false
	return s
}

// pull fetches the read chunks of the reply in s into a long buffer. What the
// reply claims to be is bounded by what the call allows it to be.
func (l corners) pull(ctx context.Context, s *slot) error {
	limit := s.shape.ReplyHead + len(s.reply.Lists.Read)*(plan.Align+4)
	for _, it := range s.shape.Recv {
		limit += it.Padded()
	}
	chunks, total, err := plan.Pull(nil, &s.reply, s.replyLen-s.headerLen, limit)
	if err != nil {
		return badReply("%v", err)
	}
	l.releaseLong(s) // that of a long call has served
	if s.lease, err = l.lend(ctx, total); err != nil {
		return err
	}
	most := l.d.cfg.Device.Caps().MaxMessage
	s.wrs, s.local = s.wrs[:0], s.local[:0]
	for _, c := range chunks {
		off := c.Off
		for _, seg := range s.reply.Lists.Read[c.First:c.Last] {
			for done := 0; done < int(seg.Length); {
				n := min(int(seg.Length)-done, most)
				s.local = append(s.local, s.lease.Slice(off, n))
				k := len(s.local)
				s.wrs = append(s.wrs, verbs.SendWR{ID: l.readID(s), Op: verbs.OpRead, Signaled: true,
					Local: s.local[k-1 : k : k], RKey: seg.Handle, Addr: seg.Offset + uint64(done)})
				off, done = off+n, done+n
			}
		}
		s.layout.chunks = append(s.layout.chunks, chunkData{pos: c.Pos, data: s.lease.Slice(c.Off, c.Len).Bytes()})
	}
	for all := s.wrs; len(all) > 0; all = all[len(s.wrs):] {
		if l.reads == 0 {
			return badReply("it has read chunks, and the server serves no RDMA Read")
		}
		s.wrs = all[:min(len(all), l.reads)]
		l.mu.Lock()
		l.fetches[s.index].reads, s.sending = len(s.wrs), true
		l.mu.Unlock()
		if _, err := l.post(ctx, &s.sender, nil); err != nil {
			l.fail(err)
		}
		l.awaitCompletions(ctx, s)
		if l.Err() != nil {
			return errLinkDead
		}
	}
	l.d.stats.readReplies.Add(1)
	return nil
}

// pullFailed is the error of a call whose reply could not be fetched.
func (l *link) pullFailed(err error) error {
	var bad *badReplyError
	if !errors.As(err, &bad) {
		return l.failure(transport.Unknown, err)
	}
	l.mu.Lock()
	l.badMessage()
	l.mu.Unlock()
	return &transport.Error{Fate: transport.Answered, Err: err}
}

// release tells the responder that the chunks of its reply to s are not needed
// any more.
func (l corners) release(s *slot) {
	ctx := context.Background()
	h := wire.Done{Header: wire.Header{XID: s.xid, Version: Version1, Credits: uint32(l.credits.Requested), Proc: wire.ProcDone}}
	s.hw.Reset(s.header.Bytes(), nil)
	h.Append(&s.hw)
	s.local = append(s.local[:0], s.header.Slice(0, len(s.hw.Bytes())))
	s.wrs = append(s.wrs[:0], verbs.SendWR{ID: sendID(s), Op: verbs.OpSend, Signaled: true, Local: s.local})
	l.mu.Lock()
	s.sending = true
	l.mu.Unlock()
	if _, err := l.post(ctx, &s.sender, nil); err != nil {
		l.fail(err)
	}
	l.awaitCompletions(ctx, s)
}

// runDone sends RDMA_DONE for the replies that nobody waits for any more, until
// the link ends. It is one of l.users.
func (l corners) runDone() {
	defer l.users.Done()
	for {
		select {
		case s := <-l.undone:
			l.release(s)
			l.finish(s)
		case <-l.done:
			return
		}
	}
}
