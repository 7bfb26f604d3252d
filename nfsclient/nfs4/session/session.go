package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// incarnation is one session of the server's. All but id and fore is guarded by Session.mu.
type incarnation struct {
	id    wire.SessionID
	fore  wire.Channel
	slots *slots
	// dead: no new request goes to it. alive: the server has it nevertheless.
	dead, alive bool
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
	moved    bool // that a lease has moved was logged
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
	// Slots may be used, of which Busy are, Waiting calls wait for one.
	Slots, Busy, Waiting int
	// Recovering: calls wait until the session was made anew.
	Recovering bool
	Epoch      uint64
	Lease      time.Duration
	// Owner, Scope and Implementation are what the server says of itself.
	Owner, Scope, Implementation string
}

// Info is a snapshot.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Info{ClientID: s.clientID, Session: s.cur.id, Fore: s.cur.fore, Slots: s.cur.slots.target, Busy: s.cur.slots.used,
		Waiting: len(s.waiting[ordinary]), Recovering: s.stopped, Epoch: s.epoch, Lease: s.lease,
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
	s.cancel()
	s.tasks.Wait()
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
