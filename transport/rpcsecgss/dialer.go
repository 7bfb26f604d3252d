package rpcsecgss

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// Config configures a Dialer.
type Config struct {
	// Service is what of the calls is protected.
	Service Service
	// Initiator returns who makes contexts for a user; it is called once for each.
	Initiator func(uid uint32) Initiator
	// Hard has data wait for a credential, see transport.ErrAwaitCredential.
	Hard bool
	// Log may be nil. It is told, once until that has changed, which user cannot be known
	// to the server, and why.
	Log *slog.Logger
	// Now is the time, for tests; nil means time.Now.
	Now func() time.Time
}

// Dialer makes links over which the calls of each user are made under a context of his.
// It implements transport.Dialer.
type Dialer struct {
	transport.Dialer
	cfg Config

	mu    sync.Mutex
	users map[uint32]*user
	// sweepAt is how many there may be before those are dropped who are gone.
	sweepAt int
}

// NewDialer decorates d, which it takes. The calls made over its links name their user by
// a transport.AuthSys, in whose place the context's credential travels; calls with another
// credential, or none, are not changed.
func NewDialer(d transport.Dialer, cfg Config) *Dialer {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Dialer{Dialer: d, cfg: cfg, users: make(map[uint32]*user)}
}

// Dial implements transport.Dialer.
func (d *Dialer) Dial(ctx context.Context) (transport.Link, error) {
	l, err := d.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	k := &link{Link: l, d: d, users: make(map[uint32]*holder)}
	k.xid.Store(rand.Uint32())
	return k, nil
}

// user is what all links have in common of one user.
type user struct {
	uid uint32
	by  Initiator

	// Guarded by Dialer.mu: links is how many have the user, and left when the last one had it.
	links int
	left  time.Time

	mu sync.Mutex
	// pending is a token to which there was no answer.
	pending *attempt
	// failure is why the last attempt has failed, which holds until retry. logged: the log
	// has been told of one.
	failure error
	retry   time.Time
	logged  bool
}

// failureLife is how long it holds that a user cannot be known to the server.
const failureLife = 5 * time.Second

// user is that of a link that has not had it, until release.
func (d *Dialer) user(uid uint32, now time.Time) *user {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[uid]
	if u == nil {
		d.sweep(now)
		u = &user{uid: uid, by: d.cfg.Initiator(uid)}
		d.users[uid] = u
	}
	u.links++
	return u
}

// release ends what user began. What is known of the user is kept for a while, for another link.
func (d *Dialer) release(u *user, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u.links--
	u.left = now
}

// sweep drops users whom no link has had for idleLife, with their tickets, if there are many. mu is held.
func (d *Dialer) sweep(now time.Time) {
	if len(d.users) < max(d.sweepAt, leastUsers) {
		return
	}
	for uid, u := range d.users {
		if u.links == 0 && now.Sub(u.left) >= idleLife {
			delete(d.users, uid)
		}
	}
	d.sweepAt = 2 * len(d.users)
}

// begin returns the token to be sent: the one without an answer, if there is one.
func (d *Dialer) begin(ctx context.Context, u *user) (*attempt, error) {
	now := d.cfg.Now()
	u.mu.Lock()
	if u.failure != nil && now.Before(u.retry) {
		defer u.mu.Unlock()
		return nil, u.failure
	}
	a := u.pending
	u.pending = nil
	u.mu.Unlock()
	if a != nil && a.tries < maxTries && now.Sub(a.begun) < attemptAge {
		a.tries++
		return a, nil
	}
	token, finish, err := u.by.Start(ctx)
	if err != nil {
		return nil, d.note(ctx, u, d.none(u, err))
	}
	return &attempt{token: token, finish: finish, begun: now, tries: 1}, nil
}

// note remembers how an attempt has ended, and returns err.
func (d *Dialer) note(ctx context.Context, u *user, err error) error {
	if err != nil && ctx.Err() != nil {
		return err // it says nothing of the user
	}
	u.mu.Lock()
	first := err != nil && !u.logged
	again := err == nil && u.logged
	u.logged = err != nil
	u.failure, u.retry = err, d.cfg.Now().Add(failureLife)
	u.mu.Unlock()
	var te *transport.Error
	if first && errors.As(err, &te) {
		d.cfg.Log.Warn(te.Err.Error())
	}
	if again {
		d.cfg.Log.Info(fmt.Sprintf("user %d is known to the server again", u.uid))
	}
	return err
}

// Forgetter is an Initiator that keeps something for later contexts.
type Forgetter interface {
	// Forget drops it: the server did not accept what was made of it.
	Forget()
}

// establish makes a context for u over l. A server that refuses is asked once more, with another token by another ticket: it may have
// taken a token that was given before for a replay, or have new keys since the ticket was got.
func (d *Dialer) establish(ctx context.Context, u *user, l transport.Link, xid uint32, c *transport.Call) (*secContext, error) {
	for again := false; ; again = true {
		a, err := d.begin(ctx, u)
		if err != nil {
			return nil, err
		}
		made, err := establish(ctx, l, xid, c, d.cfg.Service, a, d.cfg.Now)
		switch {
		case err == nil:
			return made, d.note(ctx, u, nil)
		case errors.Is(err, errNoAnswer):
			u.mu.Lock()
			if u.pending == nil {
				u.pending = a
			}
			u.mu.Unlock()
			return nil, err
		}
		if f, ok := u.by.(Forgetter); ok {
			f.Forget()
		}
		if refused := (*InitError)(nil); errors.As(err, &refused) && !again {
			continue
		}
		var te *transport.Error
		if errors.As(err, &te) {
			err = te.Err
		}
		return nil, d.note(ctx, u, d.none(u, err))
	}
}

// none is the error of a call that was not sent because its user cannot be known to the
// server.
func (d *Dialer) none(u *user, why error) error { return notMade(d.unknown(u, why)) }

// unknown says that a user cannot be known to the server, and why.
func (d *Dialer) unknown(u *user, why error) error {
	kind := transport.ErrNoCredential
	if d.cfg.Hard {
		kind = transport.ErrAwaitCredential
	}
	return fmt.Errorf("%w for user %d: %w", kind, u.uid, why)
}
