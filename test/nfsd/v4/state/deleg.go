package state

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Reasons for no delegation (why_no_delegation4, section 18.16.2).
const (
	whyNotWanted  = 0
	whyContention = 1
	whyResource   = 2
)

// Delegation is one that is held.
type Delegation struct {
	Client  wire.ClientID
	Stateid wire.Stateid
	File    File
	Write   bool
	// Change and Size are those of the file when it was granted.
	Change, Size uint64
}

// delegate grants a delegation with an open, or says why not. mu is held.
func (m *Machine) delegate(c *Call, cl *client, a *wire.Open, o Opening) {
	a.Delegation = wire.Delegation{}
	if a.Claim == wire.ClaimPrevious {
		if a.DelegType == wire.DelegRead || a.DelegType == wire.DelegWrite {
			m.grant(c, cl, a, o, a.DelegType == wire.DelegWrite)
		}
		return
	}
	want := a.Access & wants
	no := func(why uint32) {
		// Who has said what it wants is told why it does not get it.
		if want != 0 {
			a.Delegation = wire.Delegation{Type: wire.DelegNoneExt, Why: why}
		}
	}
	if want == wire.WantNoDeleg || want == wire.WantCancel {
		no(whyNotWanted)
		return
	}
	if !m.cfg.Delegations || m.cfg.Callback == nil || !cl.hasBack() || m.inGrace() || o.Truncate ||
		a.Claim == wire.ClaimDelegateCur || a.Claim == wire.ClaimDelegCurFH {
		no(whyResource)
		return
	}
	write := a.Access&wire.ShareWrite != 0
	if want == wire.WantReadDeleg && write || write && !o.MayWrite || !o.MayRead {
		no(whyResource)
		return
	}
	for h := range m.files[o.File].holdings {
		switch {
		case h.kind == isDeleg && (h.client == cl || write || h.write):
			no(whyResource)
			return
		case h.kind == isOpen && h.client != cl && (write || h.access&Write != 0):
			no(whyContention)
			return
		}
	}
	if !m.changing.TryLock() {
		no(whyContention)
		return
	}
	defer m.changing.Unlock()
	m.grant(c, cl, a, o, write)
}

// Change begins something that Conflict is asked for, and of which end is the end: a delegation that was granted between the question and
// the change would not be recalled. None is until end.
func (m *Machine) Change() (end func()) {
	m.changing.RLock()
	return m.changing.RUnlock
}

// grant gives a delegation. mu is held.
func (m *Machine) grant(c *Call, cl *client, a *wire.Open, o Opening, write bool) {
	d := m.hold(isDeleg, cl, o.File, "")
	d.write, d.change, d.size = write, o.Change, o.Size
	d.granted = Referring{Session: c.Session, Sequence: c.seq, Slot: c.slotID}
	a.Delegation = wire.Delegation{Type: wire.DelegRead, Stateid: d.id}
	if write {
		a.Delegation.Type, a.Delegation.LimitBy, a.Delegation.Limit = wire.DelegWrite, wire.LimitSize, wire.ToEnd
	}
}

// Conflict must be asked before something other than an open file's READ and WRITE changes
// or reads a file: REMOVE, RENAME (both files), LINK and SETATTR ask for Write, and so does
// each change by NFSv3 or by the server's own host; a READ by NFSv3 asks for Read. c is
// nil for those without a session. ErrDelay, which is NFS3ERR_JUKEBOX too: delegations of
// others are being recalled, try again.
func (m *Machine) Conflict(c *Call, f File, want Access) wire.Status {
	m.enter()
	defer m.leave()
	return m.conflict(m.caller(c), f, want, 0)
}

// conflict is Conflict with mu held; deny is what others shall not do meanwhile. A delegation
// that was recalled a lease ago is revoked (section 10.4.6).
func (m *Machine) conflict(c *client, name File, want, deny Access) (st wire.Status) {
	f := m.files[name]
	if f == nil {
		return wire.OK
	}
	for d := range f.holdings {
		if d.kind != isDeleg || d.client == c || !d.write && want&Write == 0 && deny&Read == 0 {
			continue
		}
		if m.recall(d); m.now.Sub(d.recalled) >= m.cfg.Lease {
			m.revoke(d, wire.ErrDelegRevoked)
			continue
		}
		st = wire.ErrDelay
	}
	return st
}

// recall has a delegation recalled, once. mu is held.
func (m *Machine) recall(d *holding) {
	if d.recalled.IsZero() {
		d.recalled = m.now
		m.owe(d)
	}
}

// owe has CB_RECALL sent. mu is held.
func (m *Machine) owe(d *holding) {
	cb := Callback{Kind: CallRecall, Client: d.client.id, File: d.file.name, Stateid: d.id}
	// The client has the reply if it has used the slot since.
	g := d.granted
	if s := m.sessions[g.Session]; s != nil && s.slots.all[g.Slot].seq == g.Sequence {
		cb.Referring = &g
	}
	m.owed = append(m.owed, cb)
}

// backAgain has everything recalled again that a client was asked for and has not returned:
// its back channel has been restored. mu is held.
func (m *Machine) backAgain(c *client) {
	for d := range c.holdings {
		if d.kind == isDeleg && d.gone == wire.OK && !d.recalled.IsZero() {
			m.owe(d)
		}
	}
}

// DelegReturn is DELEGRETURN (section 18.6).
func (m *Machine) DelegReturn(c *Call, f File, a *wire.DelegReturn) wire.Status {
	m.enter()
	defer m.leave()
	d, st := m.held(m.caller(c), a.Stateid, isDeleg, f)
	if st != wire.OK {
		return st
	}
	m.remove(d)
	return wire.OK
}

// WriteDelegation is the write delegation that another client than c's has of f, whose
// holder may know a newer size and change: the server asks it by CB_GETATTR.
func (m *Machine) WriteDelegation(c *Call, f File) (Delegation, bool) {
	m.enter()
	defer m.leave()
	if f := m.files[f]; f != nil {
		for d := range f.holdings {
			if d.kind == isDeleg && d.write && d.client != m.caller(c) {
				return d.delegation(), true
			}
		}
	}
	return Delegation{}, false
}

func (d *holding) delegation() Delegation {
	return Delegation{Client: d.client.id, Stateid: d.id, File: d.file.name, Write: d.write, Change: d.change, Size: d.size}
}

// Delegations are all that are held, the recalled ones included.
func (m *Machine) Delegations() (all []Delegation) {
	m.enter()
	defer m.leave()
	for _, d := range m.holdings {
		if d.kind == isDeleg && d.gone == wire.OK {
			all = append(all, d.delegation())
		}
	}
	return all
}

// Delegated reports whether a delegation is still held: whether it is worth recalling again.
func (m *Machine) Delegated(s wire.Stateid) bool {
	m.enter()
	defer m.leave()
	d := m.holdings[s.Other]
	return d != nil && d.gone == wire.OK
}

// Recall recalls all delegations of a file, or of all files if f is empty, and says how
// many there are.
func (m *Machine) Recall(f File) (n int) {
	m.enter()
	defer m.leave()
	for _, d := range m.holdings {
		if d.kind == isDeleg && d.gone == wire.OK && (f == "" || d.file.name == f) {
			m.recall(d)
			n++
		}
	}
	return n
}
