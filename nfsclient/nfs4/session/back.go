package session

import (
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// backFlags tell that the server cannot call back.
const backFlags = wire.SeqCBPathDown | wire.SeqCBPathDownSession | wire.SeqBackchannelFault

// backChannel is what is done about a back channel that has failed. Guarded by Session.mu.
type backChannel struct {
	// from is when the next attempt may be made, and pause what is then waited until the one after: the
	// server goes on telling of the fault until it has found a way to us.
	from  time.Time
	pause time.Duration
	// seen are the flags that raised needBind.
	seen uint32
}

// askBack asks for a back channel in CREATE_SESSION. The credential of callbacks is that of the
// session's own calls: servers are refused by some clients without one, and send what they are given.
func (s *Session) askBack(o *wire.CreateSession) {
	o.Flags |= wire.SessionConnBackChan
	o.Back = s.cf.Callbacks.Channel()
	if a, ok := s.cf.Machine.(*transport.AuthSys); ok {
		gids := a.GIDs[:min(len(a.GIDs), wire.MaxGIDs)]
		o.SecParms = []wire.SecParms{{Flavor: wire.AuthSys, Machine: a.Machine, UID: a.UID, GID: a.GID, GIDs: gids}, {Flavor: wire.AuthNone}}
	}
}

// backGranted takes over what CREATE_SESSION has said of the back channel.
func (s *Session) backGranted(inc *incarnation, o *wire.CreateSession) {
	if s.cf.Callbacks == nil {
		return
	}
	slots := 0
	if o.ResFlags&wire.SessionConnBackChan != 0 && o.ResBack.MaxOps >= 2 {
		slots = int(min(o.ResBack.MaxRequests, o.Back.MaxRequests))
	}
	inc.back = slots > 0
	s.cf.Callbacks.Created(callback.Session{ID: o.Session, Minor: s.cf.Minor, Slots: slots})
}

// noteBack sees to flags of the back channel, of a request that was sent then. mu is held.
func (s *Session) noteBack(inc *incarnation, flags uint32, sent time.Time) {
	b := &s.back
	if !inc.back || s.needs&needBind != 0 || sent.Before(b.from) {
		return
	}
	now := s.cf.Clock.Now()
	if now.Sub(b.from) > s.lease {
		b.pause = recoverPause // it has worked since
	}
	b.from, b.pause = now.Add(b.pause), min(2*b.pause, s.lease)
	b.seen = flags & backFlags
	s.needs |= needBind
	signal(s.kick)
}

// rebind gives the server a connection for its back channel. Where that is not possible, and after a fault of
// the channel itself, which no connection mends (RFC 8881 section 18.46.3), the session is made anew.
func (s *Session) rebind() {
	s.mu.Lock()
	s.needs &^= needBind
	inc, seen := s.cur, s.back.seen
	again := s.needs != 0
	s.mu.Unlock()
	if again {
		signal(s.kick)
	}
	why := "the server cannot use the back channel any more"
	if seen&wire.SeqBackchannelFault == 0 {
		bind := &wire.BindConnToSession{Session: inc.id, Dir: wire.BindForeOrBoth}
		st, err := s.bare(s.ending, bind)
		switch {
		case err != nil || st == wire.ErrDelay || verdicts[st] == lost:
			return // the flag comes again, or the session is found lost
		case st == wire.OK && bind.ResDir&wire.BoundBack != 0:
			s.cf.Log.Info(fmt.Sprintf("NFSv4 session with %s: the back channel has a connection again", s.cf.Host))
			return
		}
		why = "no connection could be bound to the back channel"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if inc == s.cur && !inc.dead {
		s.giveUpSession(inc, true, why)
	}
}

// noteDoubt notes whether the server could call back, and had revoked nothing, when it answered a request that was sent
// then. Replies come in any order: only one to a request that was sent after the last doubt ends it. mu is held.
func (s *Session) noteDoubt(inc *incarnation, flags uint32, sent time.Time) {
	switch {
	case flags&(backFlags|revokedFlags) != 0:
		inc.doubt = s.cf.Clock.Now()
	case !sent.Before(inc.doubt):
		inc.doubt = time.Time{}
	}
}

// Leased reports whether the server keeps our state for certain, that of this Epoch, and could recall it: the lease was
// renewed in time, no recovery is under way, there is a back channel, and the server has not said since that it has no
// path to us or has revoked state.
func (s *Session) Leased() (epoch uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inc := s.cur
	return s.epoch, !s.stopped && !inc.dead && inc.back && inc.doubt.IsZero() && s.cf.Clock.Now().Before(s.renewed.Add(s.lease))
}

// LimitSlots obeys CB_RECALL_SLOT: new requests use no slot above target.
func (s *Session) LimitSlots(target uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.cur.slots; uint64(target)+1 < uint64(t.target) {
		t.target = int(target) + 1
	}
}
