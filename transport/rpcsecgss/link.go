package rpcsecgss

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// link is a connection with a context for each user.
type link struct {
	transport.Link
	d   *Dialer
	xid atomic.Uint32 // of calls that end a context
	// leaving are contexts being destroyed.
	leaving sync.WaitGroup

	mu     sync.Mutex
	closed bool
	users  map[uint32]*holder
	// sweepAt is how many users there may be before those are dropped who are gone.
	sweepAt int
}

// holder has the context of one user on a link.
type holder struct {
	u *user
	// Guarded by link.mu. used is when the last call asked for a context.
	used time.Time
	now  *secContext
	// old are contexts that calls still use.
	old []*secContext
	// making is closed when who makes a context is done; nil: nobody does.
	making chan struct{}
}

var errLinkEnded = errors.New("connection lost")

// Exchange implements transport.Link.
func (l *link) Exchange(ctx context.Context, xid uint32, c *transport.Call) error {
	return l.exchange(ctx, xid, c, l.Link.Exchange)
}

// ExchangeOverdue implements transport.Link.
func (l *link) ExchangeOverdue(ctx context.Context, xid uint32, c *transport.Call) error {
	return l.exchange(ctx, xid, c, l.Link.ExchangeOverdue)
}

// Stalled implements transport.Stalling.
func (l *link) Stalled() error {
	if s, ok := l.Link.(transport.Stalling); ok {
		return s.Stalled()
	}
	return nil
}

// maxDiscarded is how many replies to a call are discarded that are not authentic, after each of which the call is sent
// again. The authentic one to any of the transmissions is taken. Linux discards as many.
const maxDiscarded = 2

type exchange func(context.Context, uint32, *transport.Call) error

func (l *link) exchange(ctx context.Context, xid uint32, c *transport.Call, by exchange) error {
	sys, ok := c.Cred.(*transport.AuthSys)
	if !ok {
		return by(ctx, xid, c)
	}
	for again := false; ; again = true {
		h, sec, err := l.enter(ctx, sys.UID, xid, c)
		if err != nil {
			return err
		}
		cred := &secured{c: sec}
		c.Cred, c.Sent = cred, func() { sec.pace.sent(cred.numbers) }
		err = by(ctx, xid, c)
		for n := 0; n < maxDiscarded && errors.Is(err, ErrVerifier) && l.Err() == nil && ctx.Err() == nil; n++ {
			c.Resent = true
			err = by(ctx, xid, c)
		}
		c.Cred, c.Sent = sys, nil
		last := sec.pace.leave(cred.numbers)
		lost := err != nil && contextLost(err)
		l.left(h, sec, lost, last)
		if !lost {
			return err
		}
		if again {
			// Contexts are made and do not hold: data must wait for one that does.
			return &transport.Error{Fate: transport.Answered, Err: l.d.unknown(h.u, err)}
		}
	}
}

// contextLost reports whether the server says that it has the context no more. It has not
// carried out the call.
func contextLost(err error) bool {
	var r *transport.RPCError
	return errors.As(err, &r) && r.Denied && r.Auth && (r.Code == CredProblem || r.Code == ContextProblem)
}

// enter finds the user's context, or makes one, and waits until a call may begin under it.
func (l *link) enter(ctx context.Context, uid uint32, xid uint32, c *transport.Call) (*holder, *secContext, error) {
	for {
		h, sec, err := l.context(ctx, uid, xid, c)
		if err != nil {
			return nil, nil, err
		}
		if err := sec.pace.enter(ctx, l.Done()); err != nil {
			if errors.Is(err, errLinkEnded) && l.Err() != nil {
				err = l.Err()
			}
			return nil, nil, notMade(err)
		}
		l.mu.Lock()
		current := h.now == sec
		l.mu.Unlock()
		if current {
			return h, sec, nil
		}
		// Another has taken its place meanwhile.
		l.left(h, sec, false, sec.pace.leave(nil))
	}
}

// context is the user's context: the one that is there, or a new one. One goroutine makes
// it, the others wait; while one is there that is good enough, they use that.
func (l *link) context(ctx context.Context, uid uint32, xid uint32, c *transport.Call) (*holder, *secContext, error) {
	for {
		now := l.d.cfg.Now()
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, nil, notMade(transport.ErrClosed)
		}
		h := l.users[uid]
		if h == nil {
			l.sweep(now)
			h = &holder{u: l.d.user(uid, now)}
			l.users[uid] = h
		}
		h.used = now
		sec, making := h.now, h.making
		if sec != nil && (sec.fresh(now) || making != nil && sec.usable(now)) {
			l.mu.Unlock()
			return h, sec, nil
		}
		if making == nil {
			h.making = make(chan struct{})
			l.mu.Unlock()
			sec, err := l.renew(ctx, h, xid, c)
			return h, sec, err
		}
		l.mu.Unlock()
		select {
		case <-making:
		case <-l.Done():
			return nil, nil, notMade(errors.Join(errLinkEnded, l.Err()))
		case <-ctx.Done():
			return nil, nil, notMade(ctx.Err())
		}
	}
}

// renew makes a new context for h, of which the caller has set making. One that is there
// stays while it is usable and there cannot be another.
func (l *link) renew(ctx context.Context, h *holder, xid uint32, c *transport.Call) (*secContext, error) {
	made, err := l.d.establish(ctx, h.u, l.Link, xid, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(h.making)
	h.making = nil
	old := h.now
	if err != nil {
		if old != nil && old.usable(l.d.cfg.Now()) && l.Err() == nil && ctx.Err() == nil {
			return old, nil
		}
		return nil, err
	}
	h.now = made
	if old != nil {
		h.old = append(h.old, old)
		if old.pace.idle() {
			l.retire(h, old)
		}
	}
	return made, nil
}

// left ends the use of sec by a call; last: no other uses it.
func (l *link) left(h *holder, sec *secContext, lost, last bool) {
	if !lost && !last {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case lost && h.now == sec:
		h.now = nil
	case last && h.now != sec:
		l.retire(h, sec)
	}
}

// retire destroys a context that nobody uses, if it is one of the old ones. mu is held.
func (l *link) retire(h *holder, sec *secContext) {
	for i, o := range h.old {
		if o != sec {
			continue
		}
		h.old = append(h.old[:i], h.old[i+1:]...)
		if !l.closed {
			l.dismiss([]*secContext{sec})
		}
		return
	}
}

// Users are dropped who have made no call for idleLife, when there are twice as many as the last time, and leastUsers at least: what is
// kept is so bounded by those who make calls, and dropping costs each new user no more than its own context.
const (
	idleLife   = 10 * time.Minute
	leastUsers = 64
)

// sweep drops users who are gone, with their contexts and keys, if there are many. mu is held.
func (l *link) sweep(now time.Time) {
	if len(l.users) < max(l.sweepAt, leastUsers) {
		return
	}
	var all []*secContext
	for uid, h := range l.users {
		if h.making != nil || len(h.old) > 0 || now.Sub(h.used) < idleLife || h.now != nil && !h.now.pace.idle() {
			continue
		}
		if h.now != nil && now.Before(h.now.end) {
			all = append(all, h.now)
		}
		h.now = nil // who was about to use it looks for another
		delete(l.users, uid)
		l.d.release(h.u, now)
	}
	l.sweepAt = 2 * len(l.users)
	l.dismiss(all)
}

// destroyTimeout bounds telling the server that contexts are not needed any more, and
// destroyers how many goroutines tell it.
const (
	destroyTimeout = time.Second
	destroyers     = 16
)

// dismiss has the server be told that contexts are not needed any more. mu is held.
func (l *link) dismiss(all []*secContext) {
	for n := min(len(all), destroyers); n > 0; n-- {
		part := len(all) / n
		l.leaving.Add(1)
		go l.runDestroy(all[:part:part])
		all = all[part:]
	}
}

// runDestroy ends contexts, as many as it can in the time.
func (l *link) runDestroy(all []*secContext) {
	defer l.leaving.Done()
	ctx, cancel := context.WithTimeout(context.Background(), destroyTimeout)
	defer cancel()
	for _, sec := range all {
		if ctx.Err() != nil || l.Err() != nil {
			return // the server forgets them by itself
		}
		sec.destroy(ctx, l.Link, l.xid.Add(1))
	}
}

// Close implements transport.Link. Contexts that no call is using are destroyed before: a
// link with calls outstanding is closed because the server does not answer.
func (l *link) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.leave()
	}
	l.mu.Unlock()
	l.leaving.Wait()
	return l.Link.Close()
}

// leave gives up all users. mu is held.
func (l *link) leave() {
	now := l.d.cfg.Now()
	var all []*secContext
	for _, h := range l.users {
		if h.now != nil && h.now.pace.idle() {
			all = append(all, h.now)
		}
		l.d.release(h.u, now)
	}
	if l.Err() == nil {
		l.dismiss(all)
	}
}
