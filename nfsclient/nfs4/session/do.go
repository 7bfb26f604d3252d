package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

const (
	// Pauses before a request to whose SEQUENCE the server answered DELAY is sent again.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// maxAnew bounds how often a compound is made anew because client and server disagree
	// about a slot: a server that goes on so is broken.
	maxAnew = 8
)

// Do sends the compound c and waits for its result: nil means that the server has answered, and
// c.Status says how. Errors are *Error, those of the transport, ctx's, and c.Prepare's. While
// the session is lost and made anew Do waits, unless the transport gives up on the server.
func (s *Session) Do(ctx context.Context, c *Call) error { return s.do(ctx, c, ordinary) }

func (s *Session) do(ctx context.Context, c *Call, l lane) error {
	c.Done, c.Status, c.Repeated = 0, wire.OK, false
	q := s.newRequest(c)
	defer q.free()
	wait := ctx
	if c.Wait != nil {
		wait = c.Wait
	}
	for anew := 0; anew < maxAnew; anew++ {
		v, err := s.once(ctx, wait, c, q, l)
		wait = ctx
		switch {
		case err != nil:
			return err
		case v == executed:
			return nil
		case v == lost:
			if l == recovering {
				return ErrInterrupted
			}
			anew = -1 // the server may restart as often as it likes
		}
		c.Repeated = c.Repeated || q.call.Resent || v == nextSeq
	}
	return s.answered("it does not agree about the state of the session's slots, however often that is made anew", wire.OpSequence, q.comp.Status)
}

// once sends c as a new request, and again until it is known what becomes of it. wait bounds the wait for a slot.
func (s *Session) once(ctx, wait context.Context, c *Call, q *request, l lane) (verdict, error) {
	g, err := s.acquire(wait, l)
	if err != nil {
		return 0, err
	}
	if c.Prepare != nil {
		err = c.Prepare()
	}
	if err == nil {
		err = s.fit(q, &g.inc.fore)
	}
	if err != nil {
		s.answer(g, false)
		return 0, err
	}
	q.fix(g)
	resent, pause, binds := false, firstPause, 0
	for tries := 0; ; tries++ {
		sent := s.cf.Clock.Now()
		q.call.Resent = false
		err := s.cf.Caller.Call(ctx, &q.call)
		q.call.Resent = q.call.Resent || resent
		resent = q.call.Resent
		if err != nil {
			return 0, s.unanswered(g, q, err)
		}
		st, ok := q.comp.Outcome(0)
		if !ok {
			// The server refused the compound as a whole.
			s.park(g, q.seq.CacheThis)
			return 0, s.answered("a compound was refused", wire.OpSequence, q.comp.Status)
		}
		v := verdicts[st]
		if v == executed && !q.ours() {
			s.park(g, q.seq.CacheThis)
			return 0, s.broken("the reply is for request %d on slot %d of session %x instead of request %d on slot %d of session %x",
				q.seq.ResSequenceID, q.seq.ResSlot, q.seq.ResSession, q.seq.SequenceID, q.seq.Slot, q.seq.Session)
		}
		if v == executed && q.comp.Done == 2 && q.comp.Status == wire.ErrRetryUncachedRep {
			// It was carried out before, and of its results that of SEQUENCE alone is kept, as Linux servers do (RFC 8881
			// section 2.10.6.1.3).
			v = nextSeq
		}
		if tries > maxAnew && (v == lowerSame || v == bindSame) {
			v = confused
		}
		switch v {
		case executed:
			c.Done, c.Status = q.comp.Done-1, q.comp.Status
			if c.Done == 0 {
				c.Status = wire.OK // SEQUENCE alone
			}
			s.complain(c.Status)
			s.executed(g, &q.seq, sent)
			return v, nil
		case pauseSame:
			if err := s.wait(ctx, s.ending.Done(), pause); err != nil {
				s.park(g, q.seq.CacheThis)
				return 0, &transport.Error{Fate: transport.Unknown, Err: err}
			}
			pause = s.longer(pause, wire.OpSequence)
		case lowerSame:
			if q.seq.HighestSlot == q.seq.Slot {
				v = otherSlot
			}
			q.seq.HighestSlot = q.seq.Slot
		case bindSame:
			if err := s.bind(ctx, g.inc, binds, sent); err != nil {
				s.park(g, q.seq.CacheThis)
				return 0, err
			}
			binds++
		}
		switch v {
		case nextSeq:
			s.answer(g, true)
			return v, nil
		case otherSlot:
			if resent {
				s.park(g, q.seq.CacheThis) // it may have been carried out before
			} else {
				s.noSlot(g)
			}
			return v, nil
		case lost:
			s.lose(g, false, st)
			return v, nil
		case confused:
			s.lose(g, true, st)
			return v, nil
		case refuse:
			s.complain(st)
			s.park(g, q.seq.CacheThis)
			return 0, s.answered("a compound was refused", wire.OpSequence, st)
		}
	}
}

// unanswered decides what becomes of the slot of a call that failed, and returns the call's error.
func (s *Session) unanswered(g grant, q *request, err error) error {
	var e *transport.Error
	if errors.As(err, &e) && e.Fate == transport.NotSent && !q.call.Resent {
		s.answer(g, false)
		return err
	}
	s.park(g, q.seq.CacheThis)
	return err
}

// answer gives the slot of an answered request back.
func (s *Session) answer(g grant, consumed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(g, consumed)
}

// executed notes what SEQUENCE has told.
func (s *Session) executed(g grant, q *wire.Sequence, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.inc.slots.limit(q.ResHighestSlot, q.TargetHighestSlot, g.inc.most)
	if g.inc == s.cur && sent.After(s.renewed) {
		s.renewed = sent
	}
	s.noteDoubt(g.inc, q.StatusFlags, sent)
	s.release(g, true)
	s.noteFlags(g, q.StatusFlags, sent)
}

// noSlot obeys BADSLOT: the server has only the slots below.
func (s *Session) noSlot(g grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.slot == 0 {
		s.lostSession(g.inc, true, wire.ErrBadSlot)
	} else {
		g.inc.slots.target = min(g.inc.slots.target, g.slot)
	}
	s.release(g, false)
}

// lose gives the slot back of a session that is lost, or to be replaced.
func (s *Session) lose(g grant, alive bool, st wire.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostSession(g.inc, alive, st)
	s.release(g, false)
}

// bare sends one operation in a compound of its own, without a session.
func (s *Session) bare(ctx context.Context, o wire.Operation) (wire.Status, error) {
	return s.bareBy(ctx, o, s.cf.Caller.Call)
}

// bareBy is bare for a call that goes another way than by Config.Caller.
func (s *Session) bareBy(ctx context.Context, o wire.Operation, call func(context.Context, *transport.Call) error) (wire.Status, error) {
	q := s.newRequest(&Call{})
	defer q.free()
	q.comp.Ops = append(q.comp.Ops[:0], o)
	q.call.CountAs = uint32(o.Op())
	q.call.ReplyMax = q.comp.ReplyMax()
	if err := call(ctx, &q.call); err != nil {
		return 0, err
	}
	return q.comp.Status, nil
}

// longer is the pause after one of d. When it has become the longest, the log says what the server
// puts off: it may do so for ever, and what waits shall be known.
func (s *Session) longer(d time.Duration, op wire.Op) time.Duration {
	if d < lastPause && 2*d >= lastPause {
		s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: the server answers %v with NFS4ERR_DELAY: still trying", s.cf.Host, op))
	}
	return min(2*d, lastPause)
}

// pause waits until d has passed, or ctx ends: it then returns ctx's error.
func (s *Session) pause(ctx context.Context, d time.Duration) error { return s.wait(ctx, nil, d) }

// wait is pause, which also ends with ErrClosed when end is closed.
func (s *Session) wait(ctx context.Context, end <-chan struct{}, d time.Duration) error {
	over := make(chan struct{})
	t := s.cf.Clock.AfterFunc(d, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
		return nil
	case <-end:
		return transport.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
