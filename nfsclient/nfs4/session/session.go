package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// incarnation is one session of the server's. All but id, fore and back is guarded by Session.mu.
type incarnation struct {
	id    wire.SessionID
	fore  wire.Channel
	slots *slots
	// most bounds the slots that are used, whatever the server grants.
	most int
	// dead: no new request goes to it. alive: the server has it nevertheless.
	dead, alive bool
	// back: the server may call back.
	back bool
	// doubt is when the server last said that it cannot call back, or has revoked state; zero once it says so
	// no more.
	doubt time.Time
	// ended is canceled once it is dead: parked slots need no cleaning any more.
	ended  context.Context
	cancel context.CancelFunc
}

// Session is a session of a client with a server. Its methods may be called from any goroutine.
type Session struct {
	cf Config

	// ending is canceled by Close; it bounds what the session does on its own.
	ending context.Context
	cancel context.CancelFunc
	// tasks are the goroutines that Close joins.
	tasks sync.WaitGroup
	// Of runManage: kick tells it of needs, drained that no call is under way.
	kick, drained chan struct{}
	// record is what is known of the client's record, of Open and then of runManage; mu is held to
	// change what Info tells. recovered is when the last recovery ended.
	record    record
	recovered time.Time

	mu      sync.Mutex
	closed  bool
	cur     *incarnation
	stopped bool // the gate is closed
	// underWay counts the grants of calls that the recovery waits for.
	underWay int
	waiting  [3][]*waiter // by lane
	needs    needs
	flags    uint32 // that raised needs
	// reclaimDue: the server has not been told yet that reclaiming is complete.
	reclaimDue bool
	clientID   wire.ClientID
	epoch      uint64
	// renewed is when the last request was sent that has renewed the lease, which lasts for lease.
	renewed time.Time
	lease   time.Duration
	// testFrom is from when on revoked state is looked into again.
	testFrom time.Time
	back     backChannel
	moved    bool // that a lease has moved was logged
	// mustBind: the server does not bind connections by itself. redialed is when they were last replaced
	// for that.
	mustBind bool
	redialed time.Time
	// last is the last recovery, of which there were so many.
	last       Outage
	recoveries uint64
}

// Open makes the client known to the server and creates a session.
func Open(ctx context.Context, cf Config) (*Session, error) {
	cf.setDefaults()
	s := &Session{cf: cf, kick: make(chan struct{}, 1), drained: make(chan struct{}, 1), lease: defaultLease, stopped: true}
	s.ending, s.cancel = context.WithCancel(context.Background())
	s.cur = s.newIncarnation(&wire.CreateSession{})
	s.cur.dead = true
	if err := s.open(ctx); err != nil {
		s.cancel()
		if s.record.known {
			_ = s.destroy(ctx)
		}
		return nil, err
	}
	cf.Binder.set(s)
	s.tasks.Go(s.runManage)
	s.tasks.Go(s.runRenew)
	return s, nil
}

// open makes the first session. Nothing is there to be reclaimed.
func (s *Session) open(ctx context.Context) error {
	for {
		err := s.establish(ctx)
		if err == nil {
			err = s.complete(ctx)
		}
		if errors.Is(err, ErrInterrupted) {
			// An unconfirmed record lives for one lease, and servers restart.
			if err := s.pause(ctx, recoverPause); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.needs, s.stopped = 0, false
		return nil
	}
}

// ClientID is the client's present ID.
func (s *Session) ClientID() wire.ClientID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clientID
}

// Epoch counts how often the server has lost the state of the client: a stateid is of no
// use any more after it has changed.
func (s *Session) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// MaxRead and MaxWrite bound the data of one READ and one WRITE, and MaxOps the operations of a
// Call. They may change in a recovery.
func (s *Session) MaxRead() int { return min(s.cf.RMax, s.data(s.channel().MaxResponse)) }

// MaxWrite is explained at MaxRead.
func (s *Session) MaxWrite() int { return min(s.cf.WMax, s.data(s.channel().MaxRequest)) }

// MaxOps is explained at MaxRead.
func (s *Session) MaxOps() int { return min(s.cf.MaxOps, int(s.channel().MaxOps)) - 1 }

func (s *Session) channel() wire.Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur.fore
}

// data is how much of a message may be data.
func (s *Session) data(message uint32) int { return max(int(message)-headroom, int(message)/2) }

// Lease is the server's lease time.
func (s *Session) Lease() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// Info is what is to be seen of a session.
type Info struct {
	ClientID wire.ClientID
	Session  wire.SessionID
	Fore     wire.Channel
	// Granted slots came with the session. Slots may be used now, of which Busy are, HighestBusy the highest
	// (-1 without any). Waiting calls wait for one.
	Granted, Slots, Busy, HighestBusy, Waiting int
	// BackChannel: the server may call back.
	BackChannel bool
	// Recovering: calls wait until the session was made anew.
	Recovering bool
	Epoch      uint64
	// Renewed is when the last request was sent that has renewed the lease, which lasts for Lease.
	Renewed time.Time
	Lease   time.Duration
	// Recoveries is how often the session or the client's state was got back, Last the last time.
	Recoveries uint64
	Last       Outage
	// Owner, Scope and Implementation are what the server says of itself.
	Owner, Scope, Implementation string
}

// Outage is a time in which the session or state of the client was lost. It is zero if there was none; Ended
// is zero while it lasts.
type Outage struct {
	Why          string
	Began, Ended time.Time
}

// Info is a snapshot.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, highest := s.cur.slots, -1
	if t.used > 0 {
		highest = t.highest()
	}
	return Info{ClientID: s.clientID, Session: s.cur.id, Fore: s.cur.fore,
		Granted: int(s.cur.fore.MaxRequests), Slots: t.target, Busy: t.used, HighestBusy: highest, Waiting: len(s.waiting[ordinary]),
		BackChannel: s.cur.back, Recovering: s.stopped, Epoch: s.epoch, Renewed: s.renewed, Lease: s.lease, Recoveries: s.recoveries, Last: s.last,
		Owner: s.record.owner, Scope: s.record.scope, Implementation: s.record.impl}
}

// Close destroys the session and the client's record. Calls that wait fail, those under way
// are waited for until ctx ends.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	gone := &transport.Error{Fate: transport.NotSent, Err: transport.ErrClosed}
	for _, l := range [...]lane{ordinary, renewal, recovering} {
		s.fail(l, gone)
	}
	s.mu.Unlock()
	s.cf.Binder.set(nil)
	s.cancel()
	s.tasks.Wait()
	if s.cf.Callbacks != nil {
		defer s.cf.Callbacks.Created(callback.Session{})
	}
	if err := s.drain(ctx); err != nil {
		return fmt.Errorf("NFSv4 session with %s: calls were under way until the end: %w", s.cf.Host, err)
	}
	return s.destroy(ctx)
}

// drain waits until no call is under way.
func (s *Session) drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		n := s.underWay
		s.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-s.drained:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// destroy takes session and record from the server. What fails here ends with the lease.
func (s *Session) destroy(ctx context.Context) error {
	s.mu.Lock()
	inc := s.cur
	gone := inc.dead && !inc.alive
	s.mu.Unlock()
	if !gone {
		if err := s.destroyed(ctx, &wire.DestroySession{Session: inc.id}, wire.ErrBadSession, wire.ErrDeadSession); err != nil {
			return err
		}
	}
	return s.destroyed(ctx, &wire.DestroyClientID{ClientID: s.record.id}, wire.ErrStaleClientID)
}

// destroyed sends an operation that destroys something, until that is gone.
func (s *Session) destroyed(ctx context.Context, o wire.Operation, gone ...wire.Status) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		st, err := s.bare(ctx, o)
		if err != nil {
			return err
		}
		if st == wire.ErrDelay {
			if err := s.pause(ctx, pause); err != nil {
				return err
			}
			continue
		}
		for _, g := range append(gone, wire.OK) {
			if st == g {
				return nil
			}
		}
		return s.answered("it could not be closed, and ends with its lease", o.Op(), st)
	}
}
