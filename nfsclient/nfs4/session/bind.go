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

// Binder makes the calls of a session that come first on each new connection. It is made before
// the session, since the connections are made by its Caller. The zero value is ready; until Open has
// made the session, and after Close, it makes no call.
type Binder struct {
	mu sync.Mutex
	s  *Session
}

// Establish is reconnect.Config.Establish.
func (b *Binder) Establish(ctx context.Context, call func(context.Context, *transport.Call) error) error {
	b.mu.Lock()
	s := b.s
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.bindFirst(ctx, call)
}

// Keep is reconnect.Config.Keep: while the session has a back channel the server needs a connection, whether
// calls want one or not.
func (b *Binder) Keep() bool {
	b.mu.Lock()
	s := b.s
	b.mu.Unlock()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur.back
}

// set makes s the session whose connections are bound; nil for none. A nil Binder has none.
func (b *Binder) set(s *Session) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.s = s
	b.mu.Unlock()
}

// Redialer is a transport.Caller that can replace its connections.
type Redialer interface {
	// Redial ends the connections that are up. Calls outstanding on them are sent again over new
	// ones, which Config.Binder establishes.
	Redial()
}

// direction is what BIND_CONN_TO_SESSION asks for, or 0 if connections need not be bound: without
// state protection the first SEQUENCE binds one to the fore channel (RFC 8881 section 2.10.3.1),
// unless the server has said that it must be asked; to the back channel nothing else binds it.
// mu is held.
func (s *Session) direction() uint32 {
	switch {
	case s.cur.back:
		return wire.BindForeOrBoth
	case s.mustBind:
		return wire.BindFore
	}
	return 0
}

// bindFirst binds a new connection to the session, before anything else goes over it: once a SEQUENCE
// has bound it to the fore channel, asking for both is an error (section 18.34.3). What the server
// refuses is logged and left to the calls that follow, which are answered BADSESSION or
// CONN_NOT_BOUND_TO_SESSION if it matters to them.
func (s *Session) bindFirst(ctx context.Context, call func(context.Context, *transport.Call) error) error {
	s.mu.Lock()
	id, dir, dead := s.cur.id, s.direction(), s.cur.dead
	s.mu.Unlock()
	if dir == 0 || dead {
		return nil
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		o := &wire.BindConnToSession{Session: id, Dir: dir}
		st, err := s.bareBy(ctx, o, call)
		var e *transport.Error
		switch {
		case err == nil && verdicts[st] == lost:
			return nil // the server has restarted: the next call finds that, too
		case errors.As(err, &e) && e.Fate == transport.Answered, err == nil && st != wire.OK && st != wire.ErrDelay:
			if err == nil {
				err = s.answered("a connection could not be bound to the session", wire.OpBindConnToSession, st)
			}
			s.cf.Log.Warn(fmt.Sprintf("%v: going on without", err))
			return nil
		case err != nil:
			return err
		case st == wire.OK:
			return nil
		}
		if err := s.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// bind binds connections to the session where the server has said, to a request sent then, that it must
// be asked for that. Of several connections it cannot be said which one it was: if asking over any has not
// helped, all are replaced, and those that follow are bound before anything else goes over them.
func (s *Session) bind(ctx context.Context, inc *incarnation, tries int, sent time.Time) error {
	r, _ := s.cf.Caller.(Redialer)
	redial := r != nil && s.cf.Binder != nil && tries > 0
	s.mu.Lock()
	s.mustBind = true
	done := sent.Before(s.redialed)
	if redial && !done {
		s.redialed = s.cf.Clock.Now()
	}
	s.mu.Unlock()
	switch {
	case redial && done:
		return nil
	case redial:
		r.Redial()
		return nil
	}
	dir := uint32(wire.BindFore)
	if inc.back {
		dir = wire.BindForeOrBoth
	}
	st, err := s.bare(ctx, &wire.BindConnToSession{Session: inc.id, Dir: dir})
	if err == nil && st != wire.OK && verdicts[st] != lost && st != wire.ErrDelay {
		return s.answered("the connection could not be bound to the session", wire.OpBindConnToSession, st)
	}
	return err
}
