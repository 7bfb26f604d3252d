package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// TestOpenClose: the operations of a life without faults, and nothing is left.
func TestOpenClose(t *testing.T) {
	r := newRig(t, nil)
	r.must(remove("a"))
	r.once("a")
	if r.s.Lease() != 90*time.Second || r.s.Epoch() != 1 {
		t.Errorf("lease %v, epoch %d", r.s.Lease(), r.s.Epoch())
	}
	if err := r.s.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	want := "[EXCHANGE_ID CREATE_SESSION SEQUENCE RECLAIM_COMPLETE SEQUENCE PUTROOTFH GETATTR SEQUENCE PUTROOTFH REMOVE DESTROY_SESSION DESTROY_CLIENTID]"
	if got := fmt.Sprint(r.v.log); got != want {
		t.Errorf("\n%s instead of\n%s", got, want)
	}
	if err := r.s.Do(r.ctx, remove("b")); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestOpenFails: the error says what the server answered, and nothing is left there.
func TestOpenFails(t *testing.T) {
	for _, x := range []struct {
		op wire.Op
		st wire.Status
	}{{wire.OpExchangeID, wire.ErrMinorVersMismatch}, {wire.OpExchangeID, wire.ErrClientIDInUse}, {wire.OpCreateSession, nfsclient.ErrTooSmall}, {wire.OpSequence, wire.ErrBadXDR}} {
		v := newServer()
		v.script = func(c *wire.Compound) decision {
			if c.Ops[0].Op() == x.op {
				return decision{status: x.st}
			}
			return decision{}
		}
		_, err := Open(t.Context(), Config{Caller: v, Minor: 1, Owner: []byte("o"), Host: "server", Clock: newClock()})
		var e *Error
		if !errors.As(err, &e) || e.Status != x.st || e.Op != x.op.String() {
			t.Errorf("%v with %v: %v", x.op, x.st, err)
		}
		if len(v.clients)+len(v.sessions) != 0 {
			t.Errorf("%v with %v: %d clients and %d sessions are left", x.op, x.st, len(v.clients), len(v.sessions))
		}
	}
}

// TestOpenAgain: DELAY, a record that has expired before it was confirmed, and a session that is
// lost at once do not keep a session from being opened.
func TestOpenAgain(t *testing.T) {
	for _, x := range []struct {
		op   wire.Op
		st   wire.Status
		want int // EXCHANGE_IDs
	}{
		{wire.OpExchangeID, wire.ErrDelay, 2},
		{wire.OpCreateSession, wire.ErrDelay, 1},
		{wire.OpCreateSession, wire.ErrStaleClientID, 2},
		{wire.OpCreateSession, wire.ErrSeqMisordered, 2},
		{wire.OpSequence, wire.ErrDelay, 1},
		{wire.OpSequence, wire.ErrBadSession, 1},
	} {
		t.Run(fmt.Sprintf("%v/%s", x.op, wire.StatusName(x.st)), func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				var n atomic.Int32
				r.v.script = func(c *wire.Compound) decision {
					if c.Ops[0].Op() == x.op && n.Add(1) == 1 {
						if x.st == wire.ErrBadSession {
							r.v.forget()
							return decision{}
						}
						return decision{status: x.st}
					}
					return decision{}
				}
			})
			r.must(remove("a"))
			if n := r.v.count(wire.OpExchangeID); n != x.want {
				t.Errorf("%d EXCHANGE_IDs instead of %d", n, x.want)
			}
		})
	}
}

// TestSequenceErrors: after each error of SEQUENCE the compound is carried out once, and the slot
// stands where the server's does.
func TestSequenceErrors(t *testing.T) {
	for _, x := range []struct {
		st wire.Status
		// consumed: the server has used the sequence ID. forget: it has forgotten its sessions.
		consumed, forget bool
		sessions         int
	}{
		{st: wire.ErrDelay, sessions: 1},
		{st: wire.ErrBadHighSlot, sessions: 2}, // no lower one can be told
		{st: wire.ErrConnNotBoundToSession, sessions: 1},
		{st: wire.ErrBadSlot, sessions: 2}, // slot 0 of 1
		{st: wire.ErrSeqFalseRetry, consumed: true, sessions: 1},
		{st: wire.ErrRetryUncachedRep, consumed: true, sessions: 1},
		{st: wire.ErrSeqMisordered, sessions: 2},
		{st: wire.ErrBadSession, forget: true, sessions: 2},
		{st: wire.ErrDeadSession, forget: true, sessions: 2},
	} {
		t.Run(wire.StatusName(x.st), func(t *testing.T) {
			var bad atomic.Int32
			r := newRig(t, func(r *rig) {
				r.v.slots = 1
				r.v.script = func(c *wire.Compound) decision {
					if !has(c, "a") || bad.Add(1) > 1 {
						return decision{}
					}
					q := c.Ops[0].(*wire.Sequence)
					r.v.set(func() {
						if x.consumed {
							s := r.v.sessions[q.Session].slots[q.Slot]
							s.seq, s.cached, s.reply = q.SequenceID, true, nil
						}
						if x.forget {
							clear(r.v.sessions)
						}
					})
					return decision{status: x.st}
				}
			})
			r.must(remove("a"))
			r.must(remove("b"))
			r.once("a", "b")
			if n := r.v.count(wire.OpCreateSession); n != x.sessions {
				t.Errorf("%d sessions instead of %d", n, x.sessions)
			}
			if n := r.s.Epoch(); n != 1 {
				t.Errorf("epoch %d, though no state was lost", n)
			}
		})
	}
}

// TestReplyNotKept: the server says behind SEQUENCE that it has carried the compound out before and has not kept the
// reply. It is made anew.
func TestReplyNotKept(t *testing.T) {
	var asked atomic.Int32
	r := newRig(t, func(r *rig) {
		r.v.script = func(c *wire.Compound) decision {
			if !has(c, "a") || asked.Add(1) > 1 {
				return decision{}
			}
			return decision{amend: func(c *wire.Compound) { c.Status, c.Done = wire.ErrRetryUncachedRep, 2 }}
		}
	})
	q := remove("a")
	if r.must(q); q.Status != wire.OK || !q.Repeated || asked.Load() != 2 {
		t.Errorf("status %s, repeated %v, asked %d times", wire.StatusName(q.Status), q.Repeated, asked.Load())
	}
}

// TestRefused: an error that nothing can be done about is the call's own, and the slot goes on.
func TestRefused(t *testing.T) {
	for _, st := range []wire.Status{wire.ErrReqTooBig, wire.ErrBadXDR, wire.ErrTooManyOps, nfsclient.ErrServerFault} {
		t.Run(wire.StatusName(st), func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.v.slots = 1
				r.v.script = func(c *wire.Compound) decision {
					if has(c, "a") {
						return decision{status: st}
					}
					return decision{}
				}
			})
			var e *Error
			if err := r.s.Do(r.ctx, remove("a")); !errors.As(err, &e) || e.Status != st {
				t.Errorf("%v", err)
			}
			r.must(remove("b"))
			r.once("b")
			if n := r.v.count(wire.OpCreateSession); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// TestNeverAgrees: a server that finds every new session's slots misordered is given up on.
func TestNeverAgrees(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.v.script = func(c *wire.Compound) decision {
			if has(c, "a") {
				return decision{status: wire.ErrSeqMisordered}
			}
			return decision{}
		}
	})
	if err := r.s.Do(r.ctx, remove("a")); err == nil {
		t.Error("no error")
	}
	r.must(remove("b"))
}

// TestResent: what the transport sends again is the same request, and is carried out once.
func TestResent(t *testing.T) {
	for _, f := range []fault{lostRequest, lostReply} {
		for _, cached := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/%v", f, cached), func(t *testing.T) {
				var n atomic.Int32
				r := newRig(t, func(r *rig) {
					r.v.script = func(c *wire.Compound) decision {
						if has(c, "a") && n.Add(1) <= 2 {
							return decision{fault: f}
						}
						return decision{}
					}
				})
				c := remove("a")
				c.Cache = cached
				r.must(c)
				r.must(remove("b"))
				want := 1
				if f == lostReply && !cached {
					want = 2 // RETRY_UNCACHED_REP: the reply is gone, and with the next sequence ID it is another request
				}
				if got := r.v.done["a"]; got != want || c.Repeated != (want > 1) {
					t.Errorf("carried out %d times instead of %d, repeated: %v", got, want, c.Repeated)
				}
			})
		}
	}
}

// TestGivenUp: the slot of a call that was given up is not used again before SEQUENCE alone, with
// the same sequence ID and cachethis, has told where the server stands.
func TestGivenUp(t *testing.T) {
	for _, cached := range []bool{true, false} {
		for _, f := range []fault{unanswered, swallowed, timedOut, notSent} {
			t.Run(fmt.Sprintf("%d/%v", f, cached), func(t *testing.T) {
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				r := newRig(t, func(r *rig) {
					r.v.slots = 1
					r.v.script = func(c *wire.Compound) decision {
						if has(c, "a") {
							if f == swallowed {
								giveUp()
							}
							return decision{fault: f}
						}
						return decision{}
					}
				})
				before := r.v.count(wire.OpSequence)
				c := remove("a")
				c.Cache = cached
				done := make(chan error, 1)
				go func() { done <- r.s.Do(ctx, c) }()
				if f == unanswered {
					r.await("the call", func() bool { return r.v.done["a"] == 1 })
					giveUp()
				}
				if err := <-done; err == nil {
					t.Fatal("no error")
				}
				r.must(remove("b"))
				r.once("b")
				if f == notSent {
					return
				}
				r.v.mu.Lock()
				defer r.v.mu.Unlock()
				var a, probe wire.Sequence
				if f == swallowed { // it was never seen
					probe, a = r.v.seen[before], r.v.seen[before]
					a.SequenceID = r.v.seen[before-1].SequenceID + 1
				} else {
					a, probe = r.v.seen[before], r.v.seen[before+1]
				}
				if probe.SequenceID != a.SequenceID || probe.Slot != a.Slot || probe.CacheThis != cached {
					t.Errorf("the slot was tested with %+v after %+v", probe, a)
				}
				if n := r.v.done["a"]; n != map[fault]int{unanswered: 1, timedOut: 1, swallowed: 0}[f] {
					t.Errorf("carried out %d times", n)
				}
			})
		}
	}
}

// TestGivenUpRunning: the server is still at it, and says DELAY; others have slots meanwhile.
func TestGivenUpRunning(t *testing.T) {
	hold := make(chan struct{})
	ctx, giveUp := context.WithCancel(t.Context())
	r := newRig(t, func(r *rig) {
		r.v.hold = hold
		r.v.slots = 3
		r.v.script = func(c *wire.Compound) decision {
			if has(c, "slow") {
				return decision{fault: unanswered}
			}
			return decision{}
		}
	})
	done := make(chan error, 1)
	go func() { done <- r.s.Do(ctx, remove("slow")) }()
	var q wire.Sequence
	r.await("the request", func() bool {
		q = r.v.seen[len(r.v.seen)-1]
		s := r.v.sessions[q.Session].slots[q.Slot]
		return s != nil && s.running
	})
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	delays := func() (n int) {
		for _, s := range r.v.seen {
			if s.Slot == q.Slot && s.SequenceID == q.SequenceID {
				n++
			}
		}
		return n
	}
	r.await("two tests of the slot", func() bool { return delays() > 3 })
	r.must(remove("b"))
	close(hold)
	r.await("the slot", func() bool { return r.v.done["slow"] == 1 })
	names, errs := r.many(20, "c")
	r.join(20, errs)
	r.once(names...)
	r.once("slow", "b")
}

// TestSessionLost: the session is made anew, with the client's record, under calls in great
// number; no state is reclaimed, and each is carried out once.
func TestSessionLost(t *testing.T) {
	r := newRig(t, func(r *rig) {
		var n atomic.Int32
		r.v.script = func(c *wire.Compound) decision {
			if n.Add(1)%40 == 0 {
				r.v.forget()
			}
			return decision{}
		}
		r.cf.Recover = func(context.Context, *Recovery) error {
			t.Error("state is reclaimed")
			return nil
		}
	})
	const calls = 500
	names, errs := r.many(calls, "x")
	r.join(calls, errs)
	r.once(names...)
	if n := r.v.count(wire.OpExchangeID); n != 1 {
		t.Errorf("%d EXCHANGE_IDs", n)
	}
}

// TestRestart: a server that has restarted under calls is told what is reclaimed before any other
// call, RECLAIM_COMPLETE always, and what failed in between is done again.
func TestRestart(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			var restarts, began atomic.Int32
			r := newRig(t, func(r *rig) {
				var n atomic.Int32
				r.v.script = func(c *wire.Compound) decision {
					switch n.Add(1) {
					case 30, 60, 90:
						restarts.Add(1)
						r.v.restart()
					}
					return decision{}
				}
				r.cf.Recover = func(ctx context.Context, rec *Recovery) error {
					if rec.Loss != Restarted {
						t.Errorf("%+v", rec)
					}
					began.Add(1)
					c := remove(fmt.Sprintf("reclaim%d", rec.Epoch))
					if err := rec.Do(ctx, c); err != nil {
						return err
					}
					if c.Status != wire.OK {
						t.Errorf("reclaiming: %s", wire.StatusName(c.Status))
					}
					if fails {
						return errors.New("some files were not reclaimed")
					}
					return nil
				}
			})
			const calls = 200
			names, errs := r.many(calls, "x")
			r.join(calls, errs)
			r.once(names...)
			// Two restarts may fall into one recovery.
			if lost := int32(r.s.Epoch()) - 1; restarts.Load() != 3 || lost < 1 || lost > 3 || began.Load() < lost {
				t.Errorf("%d restarts, %d recoveries, epoch %d", restarts.Load(), began.Load(), r.s.Epoch())
			}
			if name := fmt.Sprintf("reclaim%d", r.s.Epoch()); r.v.done[name] == 0 {
				t.Errorf("%s is not done", name)
			}
		})
	}
}

// TestRestartWhileReclaiming: whatever the recovery was at when the server restarted, or when the
// transport gave up, all begins again, on a hard mount and on a soft one.
func TestRestartWhileReclaiming(t *testing.T) {
	for _, x := range []struct {
		op    wire.Op
		fault fault // none: a restart
	}{
		{wire.OpExchangeID, none}, {wire.OpCreateSession, none}, {wire.OpRemove, none}, {wire.OpReclaimComplete, none}, {wire.OpGetAttr, none},
		{wire.OpExchangeID, timedOut}, {wire.OpCreateSession, timedOut}, {wire.OpRemove, timedOut}, {wire.OpReclaimComplete, timedOut}, {wire.OpGetAttr, timedOut},
		{wire.OpCreateSession, lostReply}, {wire.OpRemove, lostReply}, {wire.OpReclaimComplete, lostReply},
	} {
		t.Run(fmt.Sprintf("%v/%d", x.op, x.fault), func(t *testing.T) {
			var armed, fired atomic.Bool
			r := newRig(t, func(r *rig) {
				r.v.script = func(c *wire.Compound) decision {
					if !armed.Load() || c.Ops[len(c.Ops)-1].Op() != x.op || fired.Swap(true) {
						return decision{}
					}
					if x.fault == none {
						r.v.restart()
					}
					return decision{fault: x.fault}
				}
				r.cf.Recover = func(ctx context.Context, rec *Recovery) error {
					c := remove(fmt.Sprintf("reclaim%d", rec.Epoch))
					if err := rec.Do(ctx, c); err != nil {
						return fmt.Errorf("some file: %w", err)
					}
					if c.Status != wire.OK {
						return errors.New(wire.StatusName(c.Status))
					}
					return nil
				}
			})
			r.v.restart()
			armed.Store(true)
			// A soft mount's calls may fail, but those that come later do not.
			err := r.s.Do(r.ctx, remove("a"))
			for n := 0; err != nil && x.fault == timedOut && n < 10; n++ {
				err = r.s.Do(r.ctx, remove("a"))
			}
			if err != nil || !fired.Load() {
				t.Fatal(err, fired.Load())
			}
			r.once("a")
			r.v.mu.Lock()
			defer r.v.mu.Unlock()
			if name := fmt.Sprintf("reclaim%d", r.s.Epoch()); r.v.done[name] == 0 {
				t.Errorf("%s is not done: %v", name, r.v.done)
			}
		})
	}
}

// TestReclaimNeeded: a server that has kept the session says so itself.
func TestReclaimNeeded(t *testing.T) {
	reclaimed := make(chan *Recovery, 10)
	r := newRig(t, func(r *rig) {
		r.cf.Recover = func(ctx context.Context, rec *Recovery) error {
			c := remove("reclaim")
			err := rec.Do(ctx, c)
			if c.Status != wire.OK {
				err = errors.New(wire.StatusName(c.Status))
			}
			reclaimed <- rec
			return err
		}
	})
	r.v.set(func() {
		r.v.flags = wire.SeqRestartReclaimNeeded
		for _, c := range r.v.clients {
			c.complete = false
		}
	})
	c := remove("a")
	if err := r.s.Do(r.ctx, c); err != nil || c.Status != wire.ErrGrace {
		t.Error(err, c.Status)
	}
	r.must(remove("b"))
	r.once("reclaim", "b")
	if rec := <-reclaimed; rec.Flags != wire.SeqRestartReclaimNeeded || rec.Loss != Restarted || len(reclaimed) != 0 {
		t.Errorf("%+v, %d more", rec, len(reclaimed))
	}
	if i := r.s.Info(); i.Recoveries != 1 || i.Last.Why == "" || i.Last.Began.IsZero() || i.Last.Ended.Before(i.Last.Began) {
		t.Errorf("%+v", i)
	}
}

// TestRevoked: state that was revoked is tested while calls go on, and again only after a lease.
func TestRevoked(t *testing.T) {
	tested, proceed := make(chan *Recovery, 10), make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.cf.Recover = func(ctx context.Context, rec *Recovery) error {
			tested <- rec
			<-proceed
			return rec.Do(ctx, &Call{Ops: []wire.Operation{&wire.PutRootFH{}}})
		}
	})
	r.v.set(func() { r.v.flags = wire.SeqAdminStateRevoked })
	r.must(remove("a"))
	if rec := <-tested; rec.Loss != Revoked {
		t.Errorf("%+v", rec)
	}
	r.must(remove("b")) // goes on meanwhile
	close(proceed)
	for r.s.Info().Last.Ended.IsZero() && r.ctx.Err() == nil {
		runtime.Gosched()
	}
	for i := range 9 { // up to the end of the lease
		r.must(remove(fmt.Sprint("c", i)))
		r.clock.advance(r.s.Lease() / 9)
	}
	if r.s.Info().Recoveries != 1 {
		t.Error("tested again within the lease")
	}
	r.must(remove("d"))
	select {
	case <-tested:
	case <-r.ctx.Done():
		t.Error("never tested again")
	}
}

// TestSlots: requests go on the lowest slots, of which the highest in use is told, and sr_target_highest_slotid
// is obeyed when it falls and when it rises.
func TestSlots(t *testing.T) {
	r := newRig(t, func(r *rig) { r.cf.Slots = 32; r.v.slots = 32 })
	for i := range 10 {
		r.must(remove(fmt.Sprint("single", i)))
	}
	r.v.set(func() {
		if r.v.maxSlot > 1 {
			t.Errorf("slot %d was used by one call at a time", r.v.maxSlot)
		}
	})
	round := func(name string, target uint32, most uint32) {
		r.v.set(func() { r.v.target = target })
		r.must(remove(name + "first"))
		r.v.set(func() { r.v.maxSlot = 0; r.v.hold = make(chan struct{}) })
		names, errs := r.many(100, name)
		close(r.v.hold)
		r.join(100, errs)
		r.once(names...)
		r.v.set(func() {
			if r.v.maxSlot > most {
				t.Errorf("%s: slot %d was used, the target is %d", name, r.v.maxSlot, target)
			}
		})
	}
	round("all", 31, 31)
	round("three", 2, 2)
	round("one", 1, 1)
	round("more", 1000, 31)
	if n := r.v.count(wire.OpCreateSession); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// TestLease: a session that is idle renews its lease after two thirds of it, also with all other slots
// taken by calls that the server does not answer, and few credits for them; one that is busy does not.
func TestLease(t *testing.T) {
	t.Run("many credits", func(t *testing.T) { lease(t, 0, 7) })
	t.Run("few credits", func(t *testing.T) { lease(t, 5, 3) })
	t.Run("no credits", func(t *testing.T) { lease(t, 2, 1) })
}

// lease is TestLease with so many credits, 0 for no bound, which so many calls may take.
func lease(t *testing.T, credits, calls int) {
	renewals := make(chan struct{}, 100)
	r := newRig(t, func(r *rig) {
		r.v.hold = make(chan struct{})
		if credits > 0 {
			r.v.credits = make(chan struct{}, credits)
		}
		r.v.script = func(c *wire.Compound) decision {
			if _, ok := lone(c); ok {
				renewals <- struct{}{}
			}
			return decision{}
		}
	})
	// timer waits until runRenew sleeps, and passes time.
	pass := func(d time.Duration) {
		for {
			r.clock.mu.Lock()
			n := len(r.clock.timers)
			r.clock.mu.Unlock()
			if n > 0 {
				break
			}
			select {
			case <-r.ctx.Done():
				t.Fatal("nobody sleeps")
			default:
				time.Sleep(time.Millisecond)
			}
		}
		r.clock.advance(d)
	}
	pass(60 * time.Second)
	<-renewals
	pass(40 * time.Second)
	r.must(remove("a"))
	pass(20 * time.Second)
	r.must(remove("b"))
	if len(renewals) != 0 {
		t.Error("renewed though it was busy")
	}
	errs := make(chan error, 20)
	for range 20 {
		go func() { errs <- r.s.Do(r.ctx, remove("slow")) }()
	}
	r.await("all slots to be taken", func() bool {
		n := 0
		for _, s := range r.v.sessions {
			for _, x := range s.slots {
				if x.running {
					n++
				}
			}
		}
		return n == calls
	})
	pass(61 * time.Second)
	<-renewals
	close(r.v.hold)
	r.join(20, errs)
}

// TestSizes: what exceeds the session is not sent.
func TestSizes(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.v.limits = wire.Channel{MaxRequest: 4096 + 4096, MaxResponse: 4096 + 8192, MaxResponseCached: 500, MaxOps: 5}
	})
	if r.s.MaxRead() != 8192 || r.s.MaxWrite() != 4096 || r.s.MaxOps() != 4 {
		t.Errorf("read %d, write %d, ops %d", r.s.MaxRead(), r.s.MaxWrite(), r.s.MaxOps())
	}
	before := len(r.v.log)
	large := remove(string(make([]byte, 1000)))
	for range 4 {
		large.Ops = append(large.Ops, large.Ops[1])
	}
	var e *Error
	if err := r.s.Do(r.ctx, large); !errors.As(err, &e) || e.Status != wire.OK {
		t.Errorf("operations: %v", err)
	}
	long := &Call{Ops: []wire.Operation{&wire.Remove{Name: string(make([]byte, 8192))}}}
	if err := r.s.Do(r.ctx, long); !errors.As(err, &e) || e.Status != wire.OK {
		t.Errorf("bytes: %v", err)
	}
	if n := len(r.v.log); n != before {
		t.Errorf("%d operations were sent", n-before)
	}
	r.must(remove("a"))
}

// TestForeignReply: a reply to another request is not taken for ours.
func TestForeignReply(t *testing.T) {
	for i, amend := range []func(q *wire.Sequence){
		func(q *wire.Sequence) { q.ResSession[15]++ },
		func(q *wire.Sequence) { q.ResSlot++ },
		func(q *wire.Sequence) { q.ResSequenceID-- },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.v.slots = 1
				r.v.script = func(c *wire.Compound) decision {
					if !has(c, "a") {
						return decision{}
					}
					return decision{amend: func(c *wire.Compound) { amend(c.Ops[0].(*wire.Sequence)) }}
				}
			})
			if err := r.s.Do(r.ctx, remove("a")); !errors.Is(err, transport.ErrProtocol) {
				t.Error(err)
			}
			r.must(remove("b"))
		})
	}
}

// TestPrepare: it runs before each new request, and its error ends the call.
func TestPrepare(t *testing.T) {
	var n int
	var first atomic.Bool
	r := newRig(t, func(r *rig) {
		r.v.script = func(c *wire.Compound) decision {
			if has(c, "0") && !first.Swap(true) {
				r.v.restart()
			}
			return decision{}
		}
	})
	m := &wire.Remove{}
	c := &Call{Ops: []wire.Operation{&wire.PutRootFH{}, m}, Cache: true, Prepare: func() error {
		m.Name = fmt.Sprint(n)
		n++
		return nil
	}}
	r.must(c)
	if n != 2 || r.v.done["1"] != 1 || r.v.done["0"] != 0 {
		t.Errorf("prepared %d times, done %v", n, r.v.done)
	}
	want := errors.New("the file is lost")
	c.Prepare = func() error { return want }
	if err := r.s.Do(r.ctx, c); err != want {
		t.Error(err)
	}
	r.must(remove("b"))
}

// TestSoft: calls that wait for a recovery fail when the transport gives up, and succeed once the
// server is back.
func TestSoft(t *testing.T) {
	var down atomic.Bool
	r := newRig(t, func(r *rig) {
		r.v.script = func(c *wire.Compound) decision {
			if down.Load() && c.Ops[0].Op() != wire.OpSequence {
				return decision{fault: timedOut}
			}
			return decision{}
		}
	})
	down.Store(true)
	r.v.restart()
	_, errs := r.many(20, "x")
	for range 20 {
		if err := <-errs; !errors.Is(err, transport.ErrTimeout) {
			t.Error(err)
		}
	}
	down.Store(false)
	for err := error(transport.ErrTimeout); err != nil; err = r.s.Do(r.ctx, remove("a")) {
		if r.ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	r.once("a")
}

// TestCloseWhileRecovering: Close does not wait for a recovery that cannot go on.
func TestCloseWhileRecovering(t *testing.T) {
	var down atomic.Bool
	asked := make(chan struct{}, 100)
	r := newRig(t, func(r *rig) {
		r.v.script = func(c *wire.Compound) decision {
			if c.Ops[0].Op() == wire.OpCreateSession && down.Load() {
				asked <- struct{}{}
				return decision{fault: swallowed}
			}
			return decision{}
		}
	})
	down.Store(true)
	r.v.forget()
	_, errs := r.many(5, "x")
	<-asked
	if err := r.s.Close(r.ctx); err != nil {
		t.Error(err)
	}
	for range 5 {
		if err := <-errs; !errors.Is(err, transport.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestCloseBusy: what the server does not let go is said.
func TestCloseBusy(t *testing.T) {
	var busy atomic.Bool
	busy.Store(true)
	v := newServer()
	v.script = func(c *wire.Compound) decision {
		if c.Ops[0].Op() == wire.OpDestroyClientID && busy.Load() {
			return decision{status: wire.ErrClientIDBusy}
		}
		return decision{}
	}
	s, err := Open(t.Context(), Config{Caller: v, Minor: 2, Owner: []byte("o"), Host: "server", Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	var e *Error
	if err := s.Close(t.Context()); !errors.As(err, &e) || e.Status != wire.ErrClientIDBusy {
		t.Error(err)
	}
}

// TestStorm: faults of all kinds under many callers. Each compound is carried out once, unless it
// says that it was repeated, or has failed.
func TestStorm(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	faults := []decision{{fault: lostRequest}, {fault: lostReply}, {status: wire.ErrDelay}, {status: wire.ErrBadSlot}, {status: wire.ErrBadHighSlot},
		{status: wire.ErrSeqMisordered}, {fault: swallowed}, {fault: unanswered}}
	var n atomic.Uint64
	var calm atomic.Bool
	r := newRig(t, func(r *rig) {
		r.cf.Recover = func(ctx context.Context, rec *Recovery) error { return rec.Do(ctx, remove("reclaim")) }
		r.v.script = func(c *wire.Compound) decision {
			g := rand.New(rand.NewPCG(seed, n.Add(1)))
			if calm.Load() || c.Ops[0].Op() != wire.OpSequence {
				return decision{}
			}
			switch p := g.IntN(400); {
			case p < 40:
				d := faults[g.IntN(len(faults))]
				if !has(c, "given up") && (d.fault == swallowed || d.fault == unanswered) {
					return decision{}
				}
				return d
			case p == 40:
				r.v.restart()
			case p == 41:
				r.v.forget()
			case p < 50:
				r.v.set(func() { r.v.target = 1 + g.Uint32N(8) })
			}
			return decision{}
		}
	})
	const callers, each = 24, 60
	type outcome struct {
		name     string
		repeated bool
		err      error
	}
	outcomes := make(chan outcome, callers*each)
	for i := range callers {
		go func() {
			for k := range each {
				name := fmt.Sprintf("%d/%d", i, k)
				if i%6 == 0 {
					ctx, end := context.WithTimeout(r.ctx, time.Millisecond)
					_ = r.s.Do(ctx, remove("given up"))
					end()
				}
				c := remove(name)
				err := r.s.Do(r.ctx, c)
				for err == nil && c.Status == wire.ErrGrace { // restarted behind SEQUENCE
					err = r.s.Do(r.ctx, c)
				}
				if err == nil && c.Status != wire.OK {
					err = errors.New(wire.StatusName(c.Status))
				}
				outcomes <- outcome{name, c.Repeated, err}
			}
		}()
	}
	repeated := 0
	for range callers * each {
		o := <-outcomes
		r.v.mu.Lock()
		done := r.v.done[o.name]
		r.v.mu.Unlock()
		switch {
		case o.err != nil:
			t.Errorf("%s: %v", o.name, o.err)
		case o.repeated && done >= 1:
			repeated++
		case done != 1:
			t.Errorf("%s was carried out %d times, repeated: %v", o.name, done, o.repeated)
		}
	}
	calm.Store(true)
	r.must(remove("last"))
	t.Logf("%d compounds, %d repeated, %d sessions, %d records", callers*each, repeated, r.v.count(wire.OpCreateSession), r.v.count(wire.OpExchangeID))
}

// TestInfo: what is to be seen of a session: slots, the lease, and what became of it.
func TestInfo(t *testing.T) {
	r := newRig(t, func(r *rig) { r.cf.Slots, r.v.slots, r.v.lease = 8, 8, 60 })
	i := r.s.Info()
	if i.Granted != 8 || i.Slots != 8 || i.Busy != 0 || i.HighestBusy != -1 || i.Lease != time.Minute || i.Recoveries != 0 || !i.Last.Began.IsZero() || i.BackChannel {
		t.Errorf("%+v", i)
	}
	r.clock.advance(10 * time.Second)
	r.must(remove("a"))
	if now := r.s.Info(); now.Renewed.Sub(i.Renewed) < 10*time.Second {
		t.Errorf("renewed %v, before %v", now.Renewed, i.Renewed)
	}
	r.v.restart()
	r.must(remove("b"))
	if now := r.s.Info(); now.Recoveries != 1 || !strings.Contains(now.Last.Why, "BADSESSION") || now.Last.Ended.IsZero() || now.Session == i.Session {
		t.Errorf("%+v", now)
	}
	hold := make(chan struct{})
	r.v.set(func() { r.v.hold = hold })
	done := make(chan error, 1)
	go func() { done <- r.s.Do(r.ctx, remove("slow")) }()
	if err := r.v.await(r.ctx, func() bool { return r.s.Info().Busy == 1 }); err != nil {
		t.Error(err)
	}
	if now := r.s.Info(); now.HighestBusy != 1 { // slot 0 is the session's own
		t.Errorf("%+v", now)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
