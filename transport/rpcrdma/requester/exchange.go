package requester

import (
	"context"
	"slices"
	"time"

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
func (r *Requester) Exchange(ctx context.Context, xid uint32, c *transport.Call) error {
	if err := ctx.Err(); err != nil {
		return r.failure(transport.NotSent, err)
	}
	waited, err := r.credits.Acquire(ctx, r.done)
	if waited {
		r.count.CreditWaits.Add(1)
	}
	if err == credit.ErrClogged {
		r.conn.Fail(err)
		err = credit.ErrEnded
	}
	if err != nil {
		return r.failure(transport.NotSent, err)
	}
	return r.exchangeIn(ctx, credit.Live, xid, c)
}

// ExchangeOverdue is Exchange for a call that takes its credit from those that
// overdue calls may have.
func (r *Requester) ExchangeOverdue(ctx context.Context, xid uint32, c *transport.Call) error {
	if err := r.credits.AcquireOverdue(ctx, r.done); err != nil {
		return r.failure(transport.NotSent, err)
	}
	return r.exchangeIn(ctx, credit.Overdue, xid, c)
}

// exchangeIn makes a call that has a credit of the share given.
func (r *Requester) exchangeIn(ctx context.Context, in credit.Share, xid uint32, c *transport.Call) error {
	s, err := r.takeSlot(xid)
	if err != nil {
		r.credits.Release(in)
		return r.failure(transport.NotSent, err)
	}
	defer r.users.Done()
	s.share = in
	return r.exchange(ctx, s, xid, c)
}

// exchange sends the call, and sends it again, otherwise, when the responder has
// refused it in a way that can be helped.
func (r *Requester) exchange(ctx context.Context, s *slot, xid uint32, c *transport.Call) error {
	s.demands = plan.Demands{}
	for fate, resends := transport.NotSent, 0; ; fate, resends = transport.Unknown, resends+1 {
		if err := r.send(ctx, s, xid, c); err != nil {
			r.quiesce(ctx, s, true)
			r.releaseLong(s)
			r.finish(s)
			return r.failure(fate, err)
		}
		replied, quiet := r.await(ctx, s)
		if !quiet {
			r.quiesce(ctx, s, replied)
		}
		if !replied && s.exposed {
			// Nothing but the connection's end makes its keys invalid.
			r.conn.Fail(errExposed)
			<-r.quiet
		}
		if !replied {
			r.releaseLong(s)
			r.detach(s)
			return r.failure(transport.Unknown, ended(ctx))
		}
		if c.Timed {
			c.Trip.Replied = time.Now()
		}
		err := r.result(ctx, s, xid, c)
		again := err != nil && resends < r.resends && (r.corners != nil && r.corners.refused(s, err) || r.amend(s, err))
		r.releaseLong(s)
		if !again {
			r.finish(s)
			return err
		}
		r.renew(s)
	}
}

// result fetches what of the reply in s is to be fetched, and decodes it.
func (r *Requester) result(ctx context.Context, s *slot, xid uint32, c *transport.Call) error {
	if r.corners != nil {
		if err := r.corners.fetch(ctx, s); err != nil {
			return err
		}
	}
	return r.decode(s, xid, c)
}

// renew makes the slot of an answered call ready for sending it again.
func (r *Requester) renew(s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.state, s.fault = slotWaiting, nil
	s.sending, s.invalidating = false, false
	s.terms = r.terms()
	s.terms.Demands = s.terms.With(s.demands)
}

// send encodes and posts the call. After an error nothing has been sent, but
// windows may be bound: those in s.keys.
func (r *Requester) send(ctx context.Context, s *slot, xid uint32, c *transport.Call) error {
	if err := r.marshal(ctx, s, xid, c); err != nil {
		r.unbound(s, 0)
		r.failIfLost(err)
		return err
	}
	last := &s.WRs[len(s.WRs)-1]
	r.mu.Lock()
	s.waiter.Init(ctx)
	s.keys = append(s.keys[:0], s.binds...)
	r.putSpare(s)
	last.Signaled = r.signalNext(len(s.WRs), last.Signaled)
	s.sending = last.Signaled
	r.conn.Sending(s.terms.Version)
	r.mu.Unlock()
	c.Trip = transport.Trip{Sent: time.Now(), BytesSent: s.callBytes()}
	posted, err := r.conn.Post(ctx, &s.Sender, ctx.Done())
	if err != nil && posted < len(s.WRs) {
		r.unbound(s, posted)
		r.failIfLost(err)
		return err
	}
	if err != nil {
		r.conn.Fail(err)
	}
	if c.Sent != nil {
		c.Sent()
	}
	r.count.called(s)
	return nil
}

// signalNext reports whether the last of n work requests must be signaled: if the call needs its completion, and at least
// once per quarter of the send queue, so that callers blocked on a full queue wake up even if the responder has not
// replied. r.mu is held.
func (r *Requester) signalNext(n int, needed bool) bool {
	r.silent += n
	if !needed && r.silent < r.sendQueue/4 {
		return false
	}
	r.silent = 0
	return true
}

// failIfLost ends the connection if err says that it is lost: a caller that gets that error must find it ended,
// even if the reaper has not noticed yet.
func (r *Requester) failIfLost(err error) {
	if IsLoss(err) {
		r.conn.Fail(err)
	}
}

// unbound undoes a send of which only that many requests were posted: windows
// that were not bound are free again, and no Send will complete.
func (r *Requester) unbound(s *slot, posted int) {
	posted = min(posted, len(s.binds))
	r.mu.Lock()
	for _, k := range s.binds[posted:] {
		r.windows = append(r.windows, k.window)
	}
	s.keys = s.keys[:min(posted, len(s.keys))]
	if s.sending {
		s.sending = false
		r.silent = r.sendQueue // the signaled request was not posted: the next one will be signaled
	}
	r.mu.Unlock()
}

// await waits for the reply. Unless it has replied the slot is abandoned: a
// reply that comes later is dropped. quiet: there is nothing for quiesce to do, as for most calls whose key the
// responder has made invalid.
func (r *Requester) await(ctx context.Context, s *slot) (replied, quiet bool) {
	for {
		over := r.rest(ctx, s)
		r.mu.Lock()
		replied = s.state == slotReplied
		switch {
		case replied:
			quiet = r.retire(s)
		case over:
			s.state = slotAbandoned
		}
		r.rested(s)
		r.mu.Unlock()
		if over || replied {
			r.leave(s)
			return replied, quiet
		}
	}
}

// retire takes back the windows of s, if the peer can reach nothing by them and no posted request needs the caller's
// memory, and reports whether that is so. r.mu is held.
func (r *Requester) retire(s *slot) bool {
	if s.sending || s.invalidating {
		return false
	}
	for _, k := range s.keys {
		if !k.invalid {
			return false
		}
	}
	for _, k := range s.keys {
		r.windows = append(r.windows, k.window)
	}
	s.keys = s.keys[:0]
	return true
}

// quiesce returns when the peer can reach nothing by the call's keys, and no
// posted request needs the caller's memory. ctx does not end it: it only
// shortens the patience with a peer that stalls, which ends the connection.
// Unless the call is over, the peer may be invalidating the keys itself: then
// windows are freed, as adapters may not stand a key invalidated twice.
func (r *Requester) quiesce(ctx context.Context, s *slot, over bool) {
	if !over {
		r.freeWindows(ctx, s)
	}
	r.mu.Lock()
	s.WRs = s.WRs[:0]
	for _, k := range s.keys {
		if !k.invalid {
			s.WRs = append(s.WRs, verbs.SendWR{ID: invalidateID(s), Op: verbs.OpLocalInvalidate, RKey: k.rkey})
		}
	}
	n := len(s.WRs)
	if n > 0 {
		s.WRs[n-1].Signaled = true
		s.invalidating = true
	}
	// A Send of copies alone needs nothing of an abandoned call.
	pending := s.invalidating || s.sending && (over || !r.copies)
	r.mu.Unlock()
	if n > 0 {
		r.count.LocalInvalidations.Add(uint64(n))
		if _, err := r.conn.Post(ctx, &s.Sender, nil); err != nil {
			// RFC 8166 section 4.5.4: memory is not given back while exposed.
			r.conn.Fail(err)
		}
	}
	if pending {
		r.awaitCompletions(ctx, s)
	}
	r.mu.Lock()
	for _, k := range s.keys {
		r.windows = append(r.windows, k.window)
	}
	s.keys = s.keys[:0]
	r.mu.Unlock()
}

// freeWindows frees the windows that the peer may still use. That may have to
// wait for the peer to take what was posted.
func (r *Requester) freeWindows(ctx context.Context, s *slot) {
	r.mu.Lock()
	s.binds = s.binds[:0]
	s.keys = slices.DeleteFunc(s.keys, func(k key) bool {
		if !k.invalid {
			s.binds = append(s.binds, k)
		}
		return !k.invalid
	})
	r.mu.Unlock()
	r.count.LocalInvalidations.Add(uint64(len(s.binds)))
	if len(s.binds) == 0 {
		return
	}
	r.watch(ctx, &s.Sender)
	defer s.Deadline.Clear()
	if r.turn != nil {
		r.turn.Expect()
		defer r.turn.Unexpect()
	}
	for _, k := range s.binds {
		k.window.Free()
	}
}

// awaitCompletions waits for the completions that s has asked for, or for the end of the
// connection, after which they do not matter.
func (r *Requester) awaitCompletions(ctx context.Context, s *slot) {
	r.watch(ctx, &s.Sender)
	defer s.Deadline.Clear()
	defer r.leave(s)
	for {
		r.mu.Lock()
		r.rested(s)
		pending := s.invalidating || s.sending
		r.mu.Unlock()
		if !pending {
			return
		}
		if r.rest(context.Background(), s) {
			r.mu.Lock()
			r.rested(s)
			r.mu.Unlock()
			r.leave(s)
			<-r.quiet
			return
		}
	}
}

// releaseLong gives the call's long buffer back; no key reaches it any more.
func (r *Requester) releaseLong(s *slot) {
	if s.lease.Arena != nil {
		r.conn.TakeBack(s.lease)
	}
	s.lease, s.longCall, s.longReply = mem.Seg{}, mem.Seg{}, mem.Seg{}
}

// finish ends an exchange whose slot and credit are free.
func (r *Requester) finish(s *slot) {
	r.mu.Lock()
	r.putSlot(s)
	in := s.share
	r.mu.Unlock()
	r.credits.Release(in)
}

// detach ends an exchange that got no reply: slot and credit stay taken until
// it comes, unless it has come by now.
func (r *Requester) detach(s *slot) {
	r.mu.Lock()
	s.waiter.Clear()
	late := s.state == slotLate
	doneDue := late && r.corners != nil && r.corners.takeDone(s)
	if late && s.sending {
		s.state = slotDraining
		r.mu.Unlock()
		return
	}
	clogged := false
	if !late {
		s.state = slotDetached
		if !r.patient {
			clogged = r.credits.Abandon(s.share)
			s.share = credit.Abandoned
		}
	}
	r.mu.Unlock()
	if clogged {
		r.conn.Fail(credit.ErrClogged)
	}
	if doneDue {
		r.corners.release(s)
	}
	if late {
		r.finish(s)
	}
}
