package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

const (
	// defaultLease is taken for the lease time while the server does not tell it; servers have
	// 60 to 120 s.
	defaultLease = 45 * time.Second
	// maxStale bounds how often in a row the server may have forgotten the client ID
	// that it has just given.
	maxStale = 4
)

// record is what is known of the client's record at the server.
type record struct {
	// known: id is the client ID, as far as is known. confirmed: a session was created.
	known, confirmed bool
	id               wire.ClientID
	// next is csa_sequence of the next CREATE_SESSION. It goes on only with an answer, so that one
	// of which nobody knows whether it came is replayed.
	next               uint32
	owner, scope, impl string
}

// establish makes a session: with the client ID if the server knows it still, and otherwise
// with another, when all state is lost. No other call is under way.
func (s *Session) establish(ctx context.Context) error {
	r := &s.record
	stale := 0
	for pause := firstPause; ; {
		st, err := wire.OK, error(nil)
		op := wire.OpExchangeID
		if !r.known {
			st, err = s.exchange(ctx)
		}
		if err == nil && st == wire.OK {
			op = wire.OpCreateSession
			st, err = s.create(ctx)
		}
		switch {
		case err != nil:
			return err
		case st == wire.OK:
			return nil
		case st == wire.ErrDelay:
			if err := s.pause(ctx, pause); err != nil {
				return err
			}
			pause = s.longer(pause, op)
			continue
		case op == wire.OpCreateSession && (st == wire.ErrStaleClientID || st == wire.ErrSeqMisordered) && stale < maxStale:
			// EXCHANGE_ID tells whether the record is there, and its next csa_sequence.
			stale++
			r.known = false
			if st == wire.ErrStaleClientID {
				r.confirmed = false
			}
			continue
		}
		return s.answered("no session could be created", op, st)
	}
}

// exchange asks for the client ID.
func (s *Session) exchange(ctx context.Context) (wire.Status, error) {
	o := &wire.ExchangeID{Verifier: s.cf.Verifier, Owner: s.cf.Owner,
		Flags: wire.ExchangeUseNonPNFS | wire.ExchangeSuppMovedRefer | wire.ExchangeBindPrincStateid}
	st, err := s.bare(ctx, o)
	if err != nil || st != wire.OK {
		return st, err
	}
	if o.ResProtect.How != wire.ProtectNone {
		return 0, s.broken("the server protects state otherwise than was asked for")
	}
	r := &s.record
	r.confirmed = o.ResFlags&wire.ExchangeConfirmedR != 0 && r.confirmed && o.ClientID == r.id
	s.mu.Lock()
	defer s.mu.Unlock()
	r.known, r.id, r.next = true, o.ClientID, o.SequenceID
	r.owner, r.scope, r.impl = fmt.Sprintf("%s/%d", o.ServerMajor, o.ServerMinor), o.ServerScope, o.ServerImpl.Name
	return st, nil
}

// create creates a session.
func (s *Session) create(ctx context.Context) (wire.Status, error) {
	cf, r := &s.cf, &s.record
	o := &wire.CreateSession{ClientID: r.id, SequenceID: r.next,
		Fore: wire.Channel{MaxRequest: uint32(cf.WMax + headroom), MaxResponse: uint32(cf.RMax + headroom), MaxResponseCached: uint32(cf.Cached),
			MaxOps: uint32(cf.MaxOps), MaxRequests: uint32(cf.Slots)},
		// Without CONN_BACK_CHAN nobody uses it, but servers want sound values.
		Back:      wire.Channel{MaxRequest: 4096, MaxResponse: 4096, MaxOps: 2, MaxRequests: 1},
		CBProgram: wire.CallbackProgram, SecParms: []wire.SecParms{{Flavor: wire.AuthNone}}}
	if cf.Callbacks != nil {
		s.askBack(o)
		cf.Callbacks.Creating()
		defer cf.Callbacks.NotCreated() // of no effect once it was
	}
	sent := s.cf.Clock.Now()
	st, err := s.bare(ctx, o)
	if err != nil {
		return 0, err
	}
	switch st {
	case wire.OK:
	case wire.ErrStaleClientID, wire.ErrDelay, wire.ErrSeqMisordered:
		return st, nil
	default:
		r.next++
		return st, nil
	}
	f := &o.ResFore
	if f.MaxRequests == 0 || f.MaxOps < 3 || f.MaxRequest < 1024 || f.MaxResponse < 1024 {
		return 0, s.broken("the server grants a session that nothing can be done with: %d slots, %d operations, requests of %d bytes, replies of %d",
			f.MaxRequests, f.MaxOps, f.MaxRequest, f.MaxResponse)
	}
	// What is more than was asked for is not relied upon.
	f.MaxRequest, f.MaxResponse = min(f.MaxRequest, o.Fore.MaxRequest), min(f.MaxResponse, o.Fore.MaxResponse)
	f.MaxOps = min(f.MaxOps, o.Fore.MaxOps)
	r.next++
	fresh := !r.confirmed
	r.confirmed = true
	inc := s.newIncarnation(o)
	s.backGranted(inc, o)
	s.mu.Lock()
	old := s.cur
	old.cancel()
	replaced := old.alive
	s.cur, s.clientID = inc, r.id
	s.needs &^= needSession | needBind
	s.renewed = sent
	if fresh {
		s.epoch++
		s.reclaimDue = true
	}
	s.mu.Unlock()
	if replaced {
		// Best effort: it goes with the client's record.
		_, _ = s.bare(ctx, &wire.DestroySession{Session: old.id})
	}
	return st, nil
}

func (s *Session) newIncarnation(o *wire.CreateSession) *incarnation {
	inc := &incarnation{id: o.Session, fore: o.ResFore, most: s.useful()}
	inc.slots = newSlots(min(int(o.ResFore.MaxRequests), inc.most))
	inc.ended, inc.cancel = context.WithCancel(s.ending)
	return inc
}

// useful is how many slots are of use: so few that calls which the server does not answer leave the transport room for one
// more (RFC 8267 section 6.7.2), that which renews the lease on slot 0, and for a NULL call of its own.
func (s *Session) useful() int { return max(2, min(s.cf.Slots, s.cf.Caller.Limits().Concurrent-1)) }

// complete tells the server that nothing more will be reclaimed, which has to be said even if
// there was nothing: before it, every OPEN and LOCK is answered GRACE. It also asks for the
// lease time, which a server that has restarted may have changed.
func (s *Session) complete(ctx context.Context) error {
	c := &Call{Ops: []wire.Operation{&wire.ReclaimComplete{}}, Cache: true}
	if err := s.patient(ctx, c); err != nil {
		return err
	}
	if c.Status != wire.OK && c.Status != wire.ErrCompleteAlready {
		return s.answered("the recovery could not be completed", wire.OpReclaimComplete, c.Status)
	}
	s.mu.Lock()
	s.reclaimDue = false
	s.mu.Unlock()
	attrs := &wire.GetAttr{Want: wire.BitmapOf(wire.AttrLeaseTime)}
	c = &Call{Ops: []wire.Operation{&wire.PutRootFH{}, attrs}}
	if err := s.patient(ctx, c); err != nil {
		return err
	}
	if c.Status == wire.OK && attrs.Attrs.Mask.Has(wire.AttrLeaseTime) && attrs.Attrs.LeaseTime > 0 {
		s.mu.Lock()
		s.lease = min(time.Duration(attrs.Attrs.LeaseTime)*time.Second, maxLease)
		s.mu.Unlock()
	}
	return nil
}

// patient makes a call of the recovery until the server does not answer DELAY any more.
func (s *Session) patient(ctx context.Context, c *Call) error {
	for pause := firstPause; ; pause = s.longer(pause, c.Ops[0].Op()) {
		if err := s.do(ctx, c, recovering); err != nil || c.Status != wire.ErrDelay {
			return err
		}
		if err := s.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// temporary reports whether calls go on waiting after a recovery has failed so: the server has
// answered, and may answer otherwise the next time.
func temporary(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return errors.Is(err, ErrInterrupted)
	}
	switch e.Status {
	case nfsclient.ErrServerFault, wire.ErrResource, nfsclient.ErrNoSpace, wire.ErrStaleClientID, wire.ErrSeqMisordered, wire.ErrGrace, nfsclient.ErrIO:
		return true
	}
	return false
}
