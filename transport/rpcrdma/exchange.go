package rpcrdma

import (
	"context"
	"errors"
	"slices"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Exchange makes one call, all on the caller's goroutine: it takes a credit and
// a slot, encodes, posts the binds and the Send in one batch, waits for the
// reaper to put the reply into the slot, makes invalid the keys that the
// responder left valid, and only then decodes.
func (l *link) Exchange(ctx context.Context, xid uint32, c *transport.Call) error {
	if err := ctx.Err(); err != nil {
		return l.failure(transport.NotSent, err)
	}
	waited, err := l.credits.Acquire(ctx, l.done)
	if waited {
		l.d.stats.creditWaits.Add(1)
	}
	if err == credit.ErrClogged {
		l.fail(err)
		err = errLinkDead
	}
	if err != nil {
		return l.failure(transport.NotSent, err)
	}
	return l.exchangeIn(ctx, credit.Live, xid, c)
}

// ExchangeOverdue is Exchange for a call that takes its credit from those that
// overdue calls may have.
func (l *link) ExchangeOverdue(ctx context.Context, xid uint32, c *transport.Call) error {
	if err := l.credits.AcquireOverdue(ctx, l.done); err != nil {
		return l.failure(transport.NotSent, err)
	}
	return l.exchangeIn(ctx, credit.Overdue, xid, c)
}

// exchangeIn makes a call that has a credit of the share given.
func (l *link) exchangeIn(ctx context.Context, in credit.Share, xid uint32, c *transport.Call) error {
	s, err := l.takeSlot(xid)
	if err != nil {
		l.credits.Release(in)
		return l.failure(transport.NotSent, err)
	}
	defer l.users.Done()
	s.share = in
	return l.exchange(ctx, s, xid, c)
}

// maxResends is how often a call is sent again on one link. Each time it has
// what the refusal before asked for, so that more than a few are a fault.
const maxResends = 8

// exchange sends the call, and sends it again, otherwise, when the responder has
// refused it in a way that can be helped.
func (l *link) exchange(ctx context.Context, s *slot, xid uint32, c *transport.Call) error {
	s.demands = plan.Demands{}
	for fate, resends := transport.NotSent, 0; ; fate, resends = transport.Unknown, resends+1 {
		if err := l.send(ctx, s, xid, c); err != nil {
			l.quiesce(ctx, s, true)
			l.releaseLong(s)
			l.finish(s)
			return l.failure(fate, err)
		}
		replied, quiet := l.await(ctx, s)
		if !quiet {
			l.quiesce(ctx, s, replied)
		}
		if !replied && s.exposed {
			// Nothing but the connection's end makes its keys invalid.
			l.fail(errExposed)
			<-l.quiet
		}
		if !replied {
			l.releaseLong(s)
			l.detach(s)
			return l.failure(transport.Unknown, ended(ctx))
		}
		err := l.result(ctx, s, xid, c)
		again := err != nil && resends < maxResends && (l.paddingRefused(s, err) || l.yields(s, err))
		l.releaseLong(s)
		if !again {
			l.finish(s)
			return err
		}
		l.renew(s)
	}
}

// result fetches what of the reply in s is to be fetched, and decodes it.
func (l *link) result(ctx context.Context, s *slot, xid uint32, c *transport.Call) error {
	var err error
	if l.byReadChunks(s) {
		err = l.pull(ctx, s)
		l.sendDone(s)
	}
	if err != nil {
		return l.pullFailed(err)
	}
	return l.decode(s, xid, c)
}

// renew makes the slot of an answered call ready for sending it again.
func (l *link) renew(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.state, s.fault = slotWaiting, nil
	s.sending, s.invalidating, s.reading, s.owing = false, false, 0, false
	s.terms = l.termsNow()
	s.terms.Demands = s.terms.With(s.demands)
}

// send encodes and posts the call. After an error nothing has been sent, but
// windows may be bound: those in s.keys.
func (l *link) send(ctx context.Context, s *slot, xid uint32, c *transport.Call) error {
	if err := l.marshal(ctx, s, xid, c); err != nil {
		l.unbound(s, 0)
		l.noteLoss(err)
		return err
	}
	last := &s.wrs[len(s.wrs)-1]
	l.mu.Lock()
	s.keys = append(s.keys[:0], s.binds...)
	l.putSpare(s)
	last.Signaled = l.tells(len(s.wrs), last.Signaled)
	s.sending = last.Signaled
	l.sending(s)
	l.mu.Unlock()
	posted, err := l.post(ctx, &s.sender, ctx.Done())
	if err != nil && posted < len(s.wrs) {
		l.unbound(s, posted)
		l.noteLoss(err)
		return err
	}
	if err != nil {
		l.fail(err)
	}
	l.count(s)
	return nil
}

// tells counts requests about to be posted and says whether the last of them is
// to be signaled, as it is if the call needs that. Now and then one is, that those
// who find the send queue full learn that it has emptied, though the responder
// answer nothing yet. l.mu is held.
func (l *link) tells(n int, needed bool) bool {
	l.silent += n
	if !needed && l.silent < l.sendQueue/4 {
		return false
	}
	l.silent = 0
	return true
}

// noteLoss ends the link if err says that the connection is dead: whoever gets
// that error must find the link so, though the reaper may not know yet.
func (l *link) noteLoss(err error) {
	var ce *verbs.ConnError
	if errors.As(err, &ce) || errors.Is(err, verbs.ErrClosed) {
		l.fail(err)
	}
}

// post posts s.wrs. While the send queue is full it waits until the reaper has
// got something, or until stop, which is ctx's or nil. A peer that takes nothing
// off the wire for too long costs the link.
func (l *link) post(ctx context.Context, s *sender, stop <-chan struct{}) (posted int, err error) {
	l.stall.set(ctx, &s.deadline)
	defer s.deadline.clear()
	posted, err = l.conn.PostSend(s.wrs)
	for errors.Is(err, verbs.ErrQueueFull) {
		room := l.awaitRoom()
		var n int
		n, err = l.conn.PostSend(s.wrs[posted:])
		posted += n
		if !errors.Is(err, verbs.ErrQueueFull) {
			break
		}
		select {
		case <-room:
		case <-stop:
			return posted, ctx.Err()
		case <-l.done:
			return posted, errLinkDead
		}
	}
	return posted, err
}

// awaitRoom returns a channel that is closed when the reaper has got something.
func (l *link) awaitRoom() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room == nil {
		l.room = make(chan struct{})
	}
	return l.room
}

// tellRoom wakes those who wait for room in the send queue. l.mu is held.
func (l *link) tellRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// unbound undoes a send of which only that many requests were posted: windows
// that were not bound are free again, and no Send will complete.
func (l *link) unbound(s *slot, posted int) {
	posted = min(posted, len(s.binds))
	l.mu.Lock()
	for _, k := range s.binds[posted:] {
		l.windows = append(l.windows, k.window)
	}
	s.keys = s.keys[:min(posted, len(s.keys))]
	if s.sending {
		s.sending = false
		l.silent = l.sendQueue // in place of the one that was to tell, the next does
	}
	l.mu.Unlock()
}

// await waits for the reply. Unless it has replied the slot is abandoned: a
// reply that comes later is dropped. quiet: there is nothing for quiesce to do, as for most calls whose key the
// responder has made invalid.
func (l *link) await(ctx context.Context, s *slot) (replied, quiet bool) {
	for {
		over := false
		select {
		case <-s.woke:
		case <-ctx.Done():
			over = true
		case <-l.done:
			over = true
		}
		l.mu.Lock()
		replied = s.state == slotReplied
		switch {
		case replied:
			quiet = l.retire(s)
		case over:
			s.state = slotAbandoned
		}
		l.mu.Unlock()
		if over || replied {
			return replied, quiet
		}
	}
}

// retire takes back the windows of s, if the peer can reach nothing by them and no posted request needs the caller's
// memory, and reports whether that is so. l.mu is held.
func (l *link) retire(s *slot) bool {
	if s.sending || s.invalidating {
		return false
	}
	for _, k := range s.keys {
		if !k.dead {
			return false
		}
	}
	for _, k := range s.keys {
		l.windows = append(l.windows, k.window)
	}
	s.keys = s.keys[:0]
	return true
}

// quiesce returns when the peer can reach nothing by the call's keys, and no
// posted request needs the caller's memory. ctx does not end it: it only
// shortens the patience with a peer that stalls, which is the end of the link.
// Unless the call is over, the peer may be invalidating the keys itself: then
// windows are freed, as adapters may not stand a key invalidated twice.
func (l *link) quiesce(ctx context.Context, s *slot, over bool) {
	if !over {
		l.freeWindows(ctx, s)
	}
	l.mu.Lock()
	s.wrs = s.wrs[:0]
	for _, k := range s.keys {
		if !k.dead {
			s.wrs = append(s.wrs, verbs.SendWR{ID: invalidateID(s), Op: verbs.OpLocalInvalidate, RKey: k.rkey})
		}
	}
	n := len(s.wrs)
	if n > 0 {
		s.wrs[n-1].Signaled = true
		s.invalidating = true
	}
	pending := s.invalidating || s.sending
	l.mu.Unlock()
	if n > 0 {
		l.d.stats.localInvalidations.Add(uint64(n))
		if _, err := l.post(ctx, &s.sender, nil); err != nil {
			// RFC 8166 section 4.5.4: memory is not given back while exposed.
			l.fail(err)
		}
	}
	if pending {
		l.settle(ctx, s)
	}
	l.mu.Lock()
	for _, k := range s.keys {
		l.windows = append(l.windows, k.window)
	}
	s.keys = s.keys[:0]
	l.mu.Unlock()
}

// freeWindows frees the windows that the peer may still use. That may have to
// wait for the peer to take what was posted.
func (l *link) freeWindows(ctx context.Context, s *slot) {
	l.mu.Lock()
	s.binds = s.binds[:0]
	s.keys = slices.DeleteFunc(s.keys, func(k key) bool {
		if !k.dead {
			s.binds = append(s.binds, k)
		}
		return !k.dead
	})
	l.mu.Unlock()
	l.d.stats.localInvalidations.Add(uint64(len(s.binds)))
	l.stall.set(ctx, &s.deadline)
	defer s.deadline.clear()
	for _, k := range s.binds {
		k.window.Free()
	}
}

// settle waits for the completions that s has asked for, or for the end of the
// link, after which they do not matter.
func (l *link) settle(ctx context.Context, s *slot) {
	l.stall.set(ctx, &s.deadline)
	defer s.deadline.clear()
	for {
		l.mu.Lock()
		pending := s.invalidating || s.sending || s.reading > 0
		l.mu.Unlock()
		if !pending {
			return
		}
		select {
		case <-s.woke:
		case <-l.done:
			<-l.quiet
			return
		}
	}
}

// releaseLong gives the call's long buffer back; no key reaches it any more.
func (l *link) releaseLong(s *slot) {
	if s.lease.Arena != nil {
		l.long.Release(&l.d.longAcct, s.lease)
	}
	s.lease, s.longCall, s.longReply = mem.Seg{}, mem.Seg{}, mem.Seg{}
}

// finish ends an exchange whose slot and credit are free.
func (l *link) finish(s *slot) {
	l.mu.Lock()
	l.putSlot(s)
	in := s.share
	l.mu.Unlock()
	l.credits.Release(in)
}

// detach ends an exchange that got no reply: slot and credit stay taken until
// it comes, unless it has come by now.
func (l *link) detach(s *slot) {
	l.mu.Lock()
	late, owing := s.state == slotLate, s.owing
	clogged := false
	if !late {
		s.state = slotDetached
		clogged = l.credits.Abandon(s.share)
		s.share = credit.Abandoned
	}
	l.mu.Unlock()
	if clogged {
		l.fail(credit.ErrClogged)
	}
	if late && owing {
		l.sendDone(s)
	}
	if late {
		l.finish(s)
	}
}

// count adds a call just sent to the statistics.
func (l *link) count(s *slot) {
	c := &l.d.stats
	c.calls.Add(1)
	c.sent.Add(uint64(s.plan.HeaderLen + s.plan.CallLen))
	switch s.plan.Call {
	case plan.CallInline:
		c.inlineCalls.Add(1)
		if s.plan.Padded {
			c.paddedCalls.Add(1)
		}
	case plan.CallReadChunk:
		c.readChunks.Add(1)
	case plan.CallPositionZero:
		c.positionZero.Add(1)
	}
	switch s.plan.Reply {
	case plan.ReplyWriteList:
		c.writeChunks.Add(1)
	case plan.ReplyChunk:
		c.replyChunks.Add(1)
	}
}
