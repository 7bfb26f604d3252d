package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// Loss is what has become of the client's state.
type Loss uint8

const (
	// Restarted: the server has a new record of this client, or has restarted, and holds none
	// of its state. While the server is in its grace period state can be reclaimed; otherwise
	// it answers NO_GRACE, and files are opened anew. All other calls wait.
	Restarted Loss = iota + 1
	// Revoked: some or all state was revoked. TEST_STATEID tells which; FREE_STATEID
	// acknowledges it. Other calls go on.
	Revoked
)

// Recovery is what Config.Recover is told.
type Recovery struct {
	Loss Loss
	// Flags are sr_status_flags that told of it, if they did.
	Flags uint32
	// Epoch is that of Session.Epoch from now on.
	Epoch uint64

	s *Session
	// failed is the error of a call that the server has not answered, though there was a credential for it. Of
	// Config.Recover's goroutines, of which one at a time makes a call.
	failed error
}

// ErrInterrupted is what Recovery.Do returns if the session was lost once more. Config.Recover then
// returns, and is called again: all is to be reclaimed anew if Epoch has changed.
var ErrInterrupted = errors.New("the session was lost during the recovery")

// Do makes a call of the recovery, as Session.Do does, but without waiting for the end of
// the recovery. Config.Recover makes one call at a time. That the user of a call has no credential
// (transport.ErrNoCredential) is for Config.Recover: the others' state does not wait for one.
func (r *Recovery) Do(ctx context.Context, c *Call) error {
	err := r.s.do(ctx, c, recovering)
	var e *transport.Error
	if errors.As(err, &e) && e.Fate != transport.Answered && !errors.Is(err, transport.ErrNoCredential) {
		r.failed = err
	}
	return err
}

// needs are what runManage is to see to.
type needs uint8

const (
	// needSession: a new session.
	needSession needs = 1 << iota
	// needReclaim: state is to be reclaimed over the session that there is.
	needReclaim
	// needTest: state was revoked.
	needTest
	// needBind: a connection is to be bound to the back channel.
	needBind
)

const (
	// recoverPause is between two attempts to recover.
	recoverPause = time.Second
	// maxLease bounds what a server may say of its lease, so that sums do not overflow.
	maxLease = 24 * time.Hour

	revokedFlags = wire.SeqExpiredAllStateRevoked | wire.SeqExpiredSomeStateRevoked | wire.SeqAdminStateRevoked |
		wire.SeqRecallableStateRevoked
)

// lostSession has the session made anew. alive: the server has it, but it is of no use.
// mu is held.
func (s *Session) lostSession(inc *incarnation, alive bool, st wire.Status) {
	if inc != s.cur || inc.dead {
		return
	}
	why := wire.StatusName(st)
	if st == wire.OK {
		why = "the server answers with replies to other requests"
	}
	s.giveUpSession(inc, alive, why)
}

// giveUpSession is lostSession with a reason; inc is the present session. mu is held.
func (s *Session) giveUpSession(inc *incarnation, alive bool, why string) {
	inc.dead, inc.alive = true, alive
	inc.cancel()
	s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: %s: making it anew", s.cf.Host, why))
	s.noteLoss(why)
	s.needs |= needSession
	s.stopped = true
	s.fail(recovering, ErrInterrupted)
	signal(s.kick)
}

// noteLoss notes why there will be a recovery, unless one is under way. mu is held.
func (s *Session) noteLoss(why string) {
	if s.last.Began.IsZero() || !s.last.Ended.IsZero() {
		s.last = Outage{Why: why, Began: s.cf.Clock.Now()}
		s.recoveries++
	}
}

// noteFlags sees to sr_status_flags of a request that was sent then. Those of the recovery's own
// calls tell what it is about. mu is held.
func (s *Session) noteFlags(g grant, flags uint32, sent time.Time) {
	if flags == 0 || g.lane == recovering || g.inc != s.cur || g.inc.dead || s.stopped {
		return
	}
	if flags&wire.SeqLeaseMoved != 0 && !s.moved {
		s.moved = true
		s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: the server has moved a file system elsewhere, which is not supported: its state there ends with its lease", s.cf.Host))
	}
	if flags&backFlags != 0 {
		s.noteBack(g.inc, flags, sent)
	}
	switch {
	case flags&wire.SeqRestartReclaimNeeded != 0:
		s.noteLoss("the server wants its clients to reclaim their state")
		s.needs |= needReclaim
		s.stopped, s.reclaimDue = true, true
		s.epoch++
	case flags&revokedFlags != 0 && s.needs&needTest == 0 && !sent.Before(s.testFrom):
		s.needs |= needTest
	default:
		return
	}
	s.flags = flags
	signal(s.kick)
}

// runManage recovers the session whenever that is needed.
func (s *Session) runManage() {
	for {
		select {
		case <-s.ending.Done():
			return
		case <-s.kick:
		}
		s.mu.Lock()
		needed := s.needs
		s.mu.Unlock()
		switch {
		case needed&(needSession|needReclaim) != 0:
			s.recover()
		case needed&needTest != 0:
			s.test()
		case needed&needBind != 0:
			s.rebind()
		}
	}
}

// recover makes the session anew, has state reclaimed, and opens the gate. It begins again until
// it has succeeded, or the session is closed.
func (s *Session) recover() {
	began := s.cf.Clock.Now()
	// A session that does not live for a second is made anew once a second.
	if wait := s.recovered.Add(recoverPause).Sub(began); wait > 0 && s.pause(s.ending, wait) != nil {
		return
	}
	for pause := recoverPause; ; pause = min(2*pause, lastPause) {
		// Calls that are under way end with an answer, if only with BADSESSION.
		if s.drain(s.ending) != nil {
			return
		}
		err := s.restore(s.ending)
		if s.ending.Err() != nil {
			return
		}
		s.mu.Lock()
		if err == nil && s.needs&(needSession|needReclaim) == 0 {
			s.stopped = false
			s.recovered = s.cf.Clock.Now()
			s.last.Ended = s.recovered
			s.dispatch()
			again := s.needs != 0
			s.mu.Unlock()
			if again {
				signal(s.kick)
			}
			s.cf.Log.Info(fmt.Sprintf("NFSv4 session with %s: OK again after %v", s.cf.Host, s.cf.Clock.Now().Sub(began).Round(time.Millisecond)))
			return
		}
		if err != nil && !temporary(err) {
			s.fail(ordinary, err)
			s.fail(renewal, err)
		}
		s.mu.Unlock()
		if err != nil {
			s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: the recovery begins again: %v", s.cf.Host, err))
		}
		if s.pause(s.ending, pause) != nil {
			return
		}
	}
}

// restore is one attempt to recover.
func (s *Session) restore(ctx context.Context) error {
	s.mu.Lock()
	session := s.needs&needSession != 0
	s.mu.Unlock()
	if session {
		if err := s.establish(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	due, r := s.reclaimDue, &Recovery{Loss: Restarted, Flags: s.flags, Epoch: s.epoch, s: s}
	s.needs &^= needReclaim
	s.mu.Unlock()
	if !due {
		return nil
	}
	if err := s.reclaim(ctx, r); err != nil {
		return err
	}
	return s.complete(ctx)
}

// reclaim has the state of the client reclaimed. Its error is why that was not possible; what was not
// granted is none.
func (s *Session) reclaim(ctx context.Context, r *Recovery) error {
	if s.cf.Recover == nil {
		return nil
	}
	err := s.cf.Recover(ctx, r)
	s.mu.Lock()
	dead := s.cur.dead
	s.mu.Unlock()
	switch {
	case dead:
		return ErrInterrupted
	case r.failed != nil:
		return r.failed
	case err != nil:
		s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: not all state was reclaimed: %v", s.cf.Host, err))
	}
	return nil
}

// test has revoked state tested. It stays noted at the server until the last of it was freed; what
// a Recover has left is looked into again after a lease.
func (s *Session) test() {
	s.mu.Lock()
	r := &Recovery{Loss: Revoked, Flags: s.flags, Epoch: s.epoch, s: s}
	s.noteLoss("the server has revoked state of this client")
	s.mu.Unlock()
	s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: the server has revoked state of this client (flags %#x)", s.cf.Host, r.Flags))
	err := s.reclaim(s.ending, r)
	if err != nil {
		s.cf.Log.Warn(fmt.Sprintf("NFSv4 session with %s: revoked state was not tested: %v", s.cf.Host, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.needs &^= needTest
	if s.needs == 0 {
		s.last.Ended = s.cf.Clock.Now()
	}
	again := s.lease
	if err != nil {
		again = recoverPause
	}
	s.testFrom = s.cf.Clock.Now().Add(again)
	if s.needs != 0 {
		signal(s.kick)
	}
}
