package state

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Clients are the confirmed client records.
func (m *Machine) Clients() (all []wire.ClientID) {
	m.enter()
	defer m.leave()
	for id, c := range m.clients {
		if c.confirmed {
			all = append(all, id)
		}
	}
	return all
}

// Expire takes a client's record and all it has, as if it had been silent for a lease. It
// reports whether there is such a client.
func (m *Machine) Expire(id wire.ClientID) bool {
	m.enter()
	defer m.leave()
	c := m.clients[id]
	if c != nil {
		m.drop(c)
	}
	return c != nil
}

// ExpireState takes all that a client holds, and leaves it its sessions: it finds out by
// ErrExpired and SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED. It reports how many opens, locks and
// delegations that were.
func (m *Machine) ExpireState(id wire.ClientID) (n int) {
	m.enter()
	defer m.leave()
	c := m.clients[id]
	if c == nil {
		return 0
	}
	for h := range c.holdings {
		if h.gone == wire.OK {
			m.revoke(h, wire.ErrExpired)
		}
	}
	n = len(c.revoked)
	c.allExpired = n > 0
	return n
}

// Revoke takes one open, lock or delegation, as an administrator would. It reports whether
// there is one.
func (m *Machine) Revoke(s wire.Stateid) bool {
	m.enter()
	defer m.leave()
	h := m.holdings[s.Other]
	if h == nil || h.gone != wire.OK {
		return false
	}
	why := wire.ErrAdminRevoked
	if h.kind == isDeleg {
		why = wire.ErrDelegRevoked
	}
	m.revoke(h, why)
	return true
}

// RevokeFile takes all opens and locks of a file, or of all files if f is empty, and says how
// many there were.
func (m *Machine) RevokeFile(f File) (n int) {
	m.enter()
	defer m.leave()
	for _, h := range m.holdings {
		if h.gone == wire.OK && h.kind != isDeleg && (f == "" || h.file.name == f) {
			m.revoke(h, wire.ErrAdminRevoked)
			n++
		}
	}
	return n
}

// SetSlots sets how many slots sessions may have from now on, at least one. The clients are
// told by SEQUENCE, and by CB_RECALL_SLOT where there is a back channel and it is fewer.
func (m *Machine) SetSlots(n uint32) {
	m.enter()
	defer m.leave()
	m.slots = min(max(n, 1), m.cfg.Slots)
	for _, s := range m.sessions {
		n := min(m.slots, s.slots.asked)
		if n == s.slots.target {
			continue
		}
		fewer := n < s.slots.target
		s.slots.resize(n)
		if fewer && s.hasBack() {
			m.owed = append(m.owed, Callback{Kind: CallRecallSlot, Client: s.client.id, Session: s.id, Slot: n - 1})
		}
	}
}

// Counts are how many of each there are.
type Counts struct {
	Clients, Sessions, Opens, Locks, Delegations, Waiting, Revoked int
}

// Counts counts what there is: of locks, the owners that have some in a file.
func (m *Machine) Counts() (n Counts) {
	m.enter()
	defer m.leave()
	n.Clients, n.Sessions = len(m.clients), len(m.sessions)
	for _, c := range m.clients {
		n.Waiting += len(c.waiting)
		n.Revoked += len(c.revoked)
	}
	for _, h := range m.holdings {
		switch {
		case h.gone != wire.OK:
		case h.kind == isOpen:
			n.Opens++
		case h.kind == isLock && len(h.set) > 0:
			n.Locks++
		case h.kind == isDeleg:
			n.Delegations++
		}
	}
	return n
}
