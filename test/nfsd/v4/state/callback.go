package state

import (
	"slices"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// CallbackKind is which callback.
type CallbackKind int

const (
	// CallRecall is CB_RECALL, with Stateid and File.
	CallRecall CallbackKind = iota
	// CallNotifyLock is CB_NOTIFY_LOCK, with File and Owner.
	CallNotifyLock
	// CallRecallSlot is CB_RECALL_SLOT, with Session and Slot, the highest that the
	// client shall use.
	CallRecallSlot
)

// Callback is something that a client has to be told.
type Callback struct {
	Kind    CallbackKind
	Client  wire.ClientID
	File    File
	Stateid wire.Stateid
	Owner   wire.Owner
	Session wire.SessionID
	Slot    uint32
	// Referring is the call by which the client came to know of Stateid, if its reply
	// may be on its way still.
	Referring *Referring
}

// Referring is a call of the fore channel (section 2.10.6.3).
type Referring struct {
	Session  wire.SessionID
	Sequence uint32
	Slot     uint32
}

// BackChannel is how a client can be called.
type BackChannel struct {
	Session wire.SessionID
	Conn    transport.Backchannel
	Program uint32
	Minor   uint32
	Sec     wire.SecParms
	Channel wire.Channel
}

// BackChannel finds a back channel of a client whose connection has not ended. only, if it is
// not zero, is the session that it must be of.
func (m *Machine) BackChannel(id wire.ClientID, only wire.SessionID) (BackChannel, bool) {
	m.enter()
	defer m.leave()
	c := m.clients[id]
	if c == nil {
		return BackChannel{}, false
	}
	for _, s := range c.sessions {
		if only != (wire.SessionID{}) && s.id != only || !s.hasBack() {
			continue
		}
		for conn, d := range s.live() {
			if d&wire.BoundBack != 0 {
				sec := s.cbSecurity
				sec.GIDs = slices.Clone(sec.GIDs)
				return BackChannel{Session: s.id, Conn: conn, Program: s.cbProgram, Minor: s.minor, Sec: sec, Channel: s.back}, true
			}
		}
	}
	return BackChannel{}, false
}

// BackFailed notes that a callback over conn got no answer: the client is told by SEQUENCE
// that the path is down, until it binds a connection. fault says that the session's back
// channel is of no use at all any more.
func (m *Machine) BackFailed(id wire.SessionID, conn transport.Backchannel, fault bool) {
	m.enter()
	defer m.leave()
	s := m.sessions[id]
	if s == nil {
		return
	}
	if d := s.conns[conn]; d != 0 {
		s.conns[conn] = d &^ wire.BoundBack
	}
	s.fault = s.fault || fault
}
