package state

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Restart forgets all clients, as a server does that has crashed. With grace, clients that
// held state may reclaim it, and nothing else may be opened or locked, for Config.Grace or
// until all of them have said RECLAIM_COMPLETE: not at all if nobody held any. Without,
// nothing can be reclaimed.
func (m *Machine) Restart(grace bool) {
	m.enter()
	defer m.leave()
	// Who could reclaim and has not yet: nobody can have taken what it held.
	left := m.reclaimers
	if m.graceEnd.IsZero() {
		left = nil
	}
	m.reclaimers = map[string]bool{}
	if grace {
		for owner := range left {
			m.reclaimers[owner] = true
		}
		for _, c := range m.clients {
			if len(c.holdings) > 0 {
				m.reclaimers[c.owner] = true
			}
		}
	}
	m.forget()
	m.boot++
	m.endGrace()
	if len(m.reclaimers) > 0 {
		m.graceEnd = m.now.Add(m.cfg.Grace)
	}
}

// InGrace reports whether a grace period lasts.
func (m *Machine) InGrace() bool {
	m.enter()
	defer m.leave()
	return m.inGrace()
}

// inGrace is InGrace with mu held.
func (m *Machine) inGrace() bool { return !m.graceEnd.IsZero() }

// EndGrace ends the grace period.
func (m *Machine) EndGrace() {
	m.enter()
	defer m.leave()
	m.endGrace()
}

// endGrace is EndGrace with mu held. Who comes later has lost what it did not reclaim.
func (m *Machine) endGrace() { m.graceEnd = time.Time{} }

// reclaiming says whether c may get state: reclaimed (reclaim) or new. mu is held.
func (m *Machine) reclaiming(c *client, reclaim bool) wire.Status {
	switch {
	case !reclaim && (m.inGrace() || !c.completed):
		return wire.ErrGrace // section 18.51.3
	case reclaim && (!m.inGrace() || c.completed):
		return wire.ErrNoGrace
	case reclaim && !m.reclaimers[c.owner]:
		return wire.ErrReclaimBad
	}
	return wire.OK
}

// ReclaimComplete is RECLAIM_COMPLETE (section 18.51).
func (m *Machine) ReclaimComplete(c *Call, a *wire.ReclaimComplete) wire.Status {
	m.enter()
	defer m.leave()
	cl := m.clients[c.Client]
	switch {
	case cl == nil:
		return wire.ErrStaleClientID
	case a.OneFS:
		return wire.OK // of interest to migration alone, which there is none of
	case cl.completed:
		return wire.ErrCompleteAlready
	}
	cl.completed = true
	if delete(m.reclaimers, cl.owner); m.inGrace() && len(m.reclaimers) == 0 {
		m.endGrace()
	}
	return wire.OK
}
