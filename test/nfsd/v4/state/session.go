package state

import (
	"encoding/binary"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// session is one session (RFC 8881 section 2.10). Machine.mu guards it.
type session struct {
	id     wire.SessionID
	client *client
	fore   wire.Channel
	slots  slotTable
	// conns are the connections of its channels. Those of the fore channel are of no
	// interest but to BIND_CONN_TO_SESSION.
	conns map[transport.Backchannel]direction
	// wantsBack: the client has asked for a back channel.
	wantsBack bool
	// fault: the back channel is beyond repair.
	fault      bool
	back       wire.Channel
	minor      uint32
	cbProgram  uint32
	cbSecurity wire.SecParms
}

// direction is a set of wire.BoundFore and wire.BoundBack.
type direction uint32

const (
	// minMessage is the smallest message that a session can do with.
	minMessage = 512
	// minBackOps is how many operations a CB_COMPOUND has.
	minBackOps   = 2
	sessionFlags = wire.SessionPersist | wire.SessionConnBackChan | wire.SessionConnRDMA
)

// CreateSession is CREATE_SESSION (section 18.36). p.Conn becomes the back channel if the
// client asks for one.
func (m *Machine) CreateSession(p Peer, c *Call, a *wire.CreateSession) wire.Status {
	m.enter()
	defer m.leave()
	cl := m.clients[a.ClientID]
	if cl == nil {
		return wire.ErrStaleClientID
	}
	switch a.SequenceID - cl.createSeq {
	case 0:
		if cl.createStatus == wire.OK {
			a.Session, a.ResSequenceID, a.ResFlags = cl.created.Session, cl.created.ResSequenceID, cl.created.ResFlags
			a.ResFore, a.ResBack = cl.created.ResFore, cl.created.ResBack
		}
		return cl.createStatus
	case 1:
	default:
		return wire.ErrSeqMisordered
	}
	cl.createSeq = a.SequenceID
	cl.createStatus = m.createSession(p, cl, a)
	cl.created = *a
	return cl.createStatus
}

// createSession confirms the client and makes its session. mu is held.
func (m *Machine) createSession(p Peer, cl *client, a *wire.CreateSession) wire.Status {
	if cl.principal != p.Principal {
		return wire.ErrClientIDInUse
	}
	s := &session{client: cl, minor: p.Minor, cbProgram: a.CBProgram, conns: map[transport.Backchannel]direction{}}
	if st := m.negotiate(s, a); st != wire.OK {
		return st
	}
	if !cl.confirmed {
		if old, _ := m.records(cl.owner); old != nil {
			m.drop(old) // the client has restarted
		}
		cl.confirmed = true
	}
	cl.expires = m.now.Add(m.cfg.Lease)
	binary.BigEndian.PutUint64(s.id[:], uint64(cl.id))
	binary.BigEndian.PutUint64(s.id[8:], m.next())
	dir := direction(wire.BoundFore)
	if s.wantsBack && p.Conn != nil {
		dir |= wire.BoundBack
	}
	if p.Conn != nil {
		s.conns[p.Conn] = dir
	}
	cl.sessions[s.id], m.sessions[s.id] = s, s

	a.Session, a.ResSequenceID, a.ResFlags = s.id, a.SequenceID, 0
	if dir&wire.BoundBack != 0 {
		a.ResFlags = wire.SessionConnBackChan
	}
	a.ResFore, a.ResBack = s.fore, s.back
	return wire.OK
}

// negotiate settles the channels. mu is held.
func (m *Machine) negotiate(s *session, a *wire.CreateSession) wire.Status {
	f := a.Fore
	switch {
	case a.Flags&^sessionFlags != 0, f.MaxRequests == 0, f.MaxOps == 0:
		return errInval
	case f.MaxRequest < minMessage, f.MaxResponse < minMessage:
		return errTooSmall
	}
	s.fore = wire.Channel{
		MaxRequest: min(f.MaxRequest, m.cfg.MaxMessage), MaxResponse: min(f.MaxResponse, m.cfg.MaxMessage),
		MaxResponseCached: min(f.MaxResponseCached, m.cfg.MaxCached),
		MaxOps:            min(f.MaxOps, m.cfg.MaxOps), MaxRequests: min(f.MaxRequests, m.slots),
		HasIRD: f.HasIRD, IRD: f.IRD,
	}
	s.slots.resize(s.fore.MaxRequests)
	s.slots.asked = min(f.MaxRequests, m.cfg.Slots)
	s.back, s.back.HeaderPad = a.Back, 0
	if s.wantsBack = a.Flags&wire.SessionConnBackChan != 0; !s.wantsBack {
		return s.security(a)
	}
	if b := a.Back; b.MaxRequests == 0 || b.MaxRequest < minMessage || b.MaxResponse < minMessage || b.MaxOps < minBackOps {
		return errTooSmall
	}
	return s.security(a)
}

// security chooses the credential of callbacks.
func (s *session) security(a *wire.CreateSession) wire.Status {
	for _, p := range a.SecParms {
		if p.Flavor == wire.AuthNone || p.Flavor == wire.AuthSys {
			s.cbSecurity = p
			return wire.OK
		}
	}
	if len(a.SecParms) > 0 && s.wantsBack {
		return wire.ErrEncrAlgUnsupp // RPCSEC_GSS alone
	}
	return wire.OK
}

// DestroySession is DESTROY_SESSION (section 18.37). last says that it is the last
// operation of its COMPOUND, which it must be to destroy the session of c.
func (m *Machine) DestroySession(p Peer, c *Call, last bool, a *wire.DestroySession) wire.Status {
	m.enter()
	defer m.leave()
	s := m.sessions[a.Session]
	if s == nil {
		return wire.ErrBadSession
	}
	own := c != nil && c.slot != nil && c.session == s
	switch {
	case own && !last:
		return wire.ErrNotOnlyOp
	case s.slots.inUse() > 0 && !own, s.slots.inUse() > 1:
		return wire.ErrDelay
	}
	m.end(s)
	return wire.OK
}

// end ends a session. mu is held.
func (m *Machine) end(s *session) {
	delete(s.client.sessions, s.id)
	delete(m.sessions, s.id)
	m.ended = append(m.ended, s.id)
}

// live are the connections that have not ended; the others are dropped. Machine.mu is held.
func (s *session) live() map[transport.Backchannel]direction {
	for c := range s.conns {
		if ended(c) {
			delete(s.conns, c)
		}
	}
	return s.conns
}

func ended(c transport.Backchannel) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// bind notes a connection. Machine.mu is held.
func (s *session) bind(c transport.Backchannel, d direction) {
	if c == nil || s.conns[c]&d == d {
		return
	}
	s.live()
	s.conns[c] |= d
}

// BindConn is BIND_CONN_TO_SESSION (section 18.34) for the connection of p. One that
// SEQUENCE has bound to the fore channel may be bound to the back channel too, as with
// the Linux server.
func (m *Machine) BindConn(p Peer, a *wire.BindConnToSession) wire.Status {
	m.enter()
	defer m.leave()
	s := m.sessions[a.Session]
	if s == nil {
		return wire.ErrBadSession
	}
	can := direction(wire.BoundFore)
	if p.Conn != nil {
		can |= wire.BoundBack
	}
	has := s.conns[p.Conn]
	var d direction
	switch a.Dir {
	case wire.BindFore:
		d = wire.BoundFore
	case wire.BindBack:
		d = wire.BoundBack
	case wire.BindForeOrBoth, wire.BindBackOrBoth:
		d = can
	default:
		return wire.ErrBadXDR
	}
	if d&^can != 0 || a.Dir == wire.BindBack && has&wire.BoundFore != 0 || a.Dir == wire.BindFore && has&wire.BoundBack != 0 {
		return errInval
	}
	s.bind(p.Conn, d)
	if d&wire.BoundBack != 0 {
		s.wantsBack = true
		m.backAgain(s.client)
	}
	a.ResSession, a.ResDir, a.ResRDMA = s.id, uint32(d), false
	return wire.OK
}

// hasBack reports whether the session has a back channel that may work. Machine.mu is held.
func (s *session) hasBack() bool {
	if s.fault {
		return false
	}
	for _, d := range s.live() {
		if d&wire.BoundBack != 0 {
			return true
		}
	}
	return false
}

// hasBack reports whether the client can be called. Machine.mu is held.
func (c *client) hasBack() bool {
	for _, s := range c.sessions {
		if s.hasBack() {
			return true
		}
	}
	return false
}
