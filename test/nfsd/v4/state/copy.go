package state

import "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"

// copying is what there is to know of a copy that goes on after its answer (RFC 7862 section
// 4.8), with its holding.
type copying struct {
	copied  uint64
	ended   bool
	outcome wire.Status
}

// BeginCopy makes the stateid of a copy into a file that goes on after COPY is answered.
func (m *Machine) BeginCopy(c *Call, into File) (wire.Stateid, wire.Status) {
	m.enter()
	defer m.leave()
	cl := m.caller(c)
	if cl == nil {
		return wire.Stateid{}, wire.ErrDelay
	}
	h := m.hold(isCopy, cl, into, "")
	h.copying = &copying{}
	return h.id, wire.OK
}

// EndCopy notes how a copy has ended. Its stateid lives until FreeCopy, or as long as the client.
func (m *Machine) EndCopy(s wire.Stateid, copied uint64, outcome wire.Status) {
	m.enter()
	defer m.leave()
	if h := m.holdings[s.Other]; h != nil {
		*h.copying = copying{copied: copied, ended: true, outcome: outcome}
	}
}

// FreeCopy forgets a copy: the client knows how it has ended.
func (m *Machine) FreeCopy(s wire.Stateid) {
	m.enter()
	defer m.leave()
	if h := m.holdings[s.Other]; h != nil {
		m.remove(h)
	}
}

// OffloadStatus is OFFLOAD_STATUS (RFC 7862 section 15.9).
func (m *Machine) OffloadStatus(c *Call, a *wire.OffloadStatus) wire.Status {
	m.enter()
	defer m.leave()
	h, st := m.find(m.caller(c), a.Stateid)
	switch {
	case h == nil || h.kind != isCopy:
		return wire.ErrBadStateid
	case st != wire.OK:
		return st
	}
	a.Copied, a.Complete, a.Outcome = h.copying.copied, h.copying.ended, h.copying.outcome
	return wire.OK
}
