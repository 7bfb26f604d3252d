package state

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Opening is what the file side says of an OPEN.
type Opening struct {
	File File
	// Truncate: the file was there before, and OPEN shall empty it.
	Truncate bool
	// MayRead and MayWrite are the user's rights, for the delegation that may be
	// granted: there is none for a file that the user could not open by that kind.
	MayRead, MayWrite bool
	// Change and Size are the file's, for CB_GETATTR.
	Change, Size uint64
}

// wants are the bits of Open.Access that say which delegation is wanted.
const wants = 0xff00

// CheckOpen is to be called before an OPEN touches any file: it knows of the grace period
// and of reclaims that come too late or from those who have nothing to reclaim.
func (m *Machine) CheckOpen(c *Call, a *wire.Open) wire.Status {
	m.enter()
	defer m.leave()
	_, st := m.checkOpen(c, a)
	return st
}

// checkOpen is CheckOpen with mu held.
func (m *Machine) checkOpen(c *Call, a *wire.Open) (*client, wire.Status) {
	cl := m.caller(c)
	switch {
	case cl == nil:
		return nil, wire.ErrDelay
	case a.Access&wire.ShareBoth == 0, a.Access&^(wire.ShareBoth|wants|0x30000) != 0, a.Deny&^wire.ShareBoth != 0:
		return nil, errInval
	}
	switch a.Claim {
	case wire.ClaimDelegatePrev, wire.ClaimDelegPrevFH:
		return nil, errNotSupp
	case wire.ClaimDelegateCur, wire.ClaimDelegCurFH:
		h, st := m.find(cl, a.DelegStateid)
		switch {
		case h != nil && h.kind != isDeleg:
			return nil, wire.ErrBadStateid
		case st != wire.OK:
			return nil, st
		}
		// The opens that it stood for existed before the grace period of anybody else.
		return cl, wire.OK
	}
	return cl, m.reclaiming(cl, a.Claim == wire.ClaimPrevious)
}

// Open is OPEN (section 18.16) of a file that is there by now. It fills in the stateid, the
// flags and the delegation. ErrDelay: a delegation must be returned first, and is being
// recalled; ErrShareDenied: another open stands against it. The server opens before it
// truncates.
func (m *Machine) Open(c *Call, a *wire.Open, o Opening) wire.Status {
	m.enter()
	defer m.leave()
	cl, st := m.checkOpen(c, a)
	if st != wire.OK {
		return st
	}
	if a.Claim == wire.ClaimDelegateCur || a.Claim == wire.ClaimDelegCurFH {
		if d, _ := m.find(cl, a.DelegStateid); d.file.name != o.File {
			return wire.ErrBadStateid
		} else if !d.write && a.Access&wire.ShareWrite != 0 {
			return wire.ErrOpenMode
		}
	}
	access, deny := Access(a.Access&wire.ShareBoth), Access(a.Deny)
	want := access
	if o.Truncate {
		want |= Write
	}
	if st := m.conflict(cl, o.File, want, deny); st != wire.OK {
		return st
	}
	h := m.opened(cl, o.File, a.Owner.Owner)
	if m.denied(o.File, h, access, deny) {
		if a.Claim == wire.ClaimPrevious {
			return wire.ErrReclaimConflict
		}
		return wire.ErrShareDenied
	}
	if h == nil {
		h = m.hold(isOpen, cl, o.File, a.Owner.Owner)
		h.locks = map[string]*holding{}
		h.before = &before{}
	} else {
		h.before = &before{seq: h.id.Seqid, access: h.access, deny: h.deny, pairs: h.pairs}
		h.bump()
	}
	h.access |= access
	h.deny |= deny
	h.pairs |= 1 << (access + 4*deny)
	a.Stateid = h.id
	a.ResFlags = wire.OpenLocktypePosix
	if cl.hasBack() && m.cfg.Callback != nil {
		a.ResFlags |= wire.OpenMayNotifyLock
	}
	m.delegate(c, cl, a, o)
	return wire.OK
}

// opened is what an owner has open of a file, or nil. mu is held.
func (m *Machine) opened(c *client, name File, owner string) *holding {
	f := m.files[name]
	if f == nil {
		return nil
	}
	for h := range f.holdings {
		if h.kind == isOpen && h.client == c && h.owner == owner {
			return h
		}
	}
	return nil
}

// denied reports whether an open other than own stands against access and deny. mu is held.
func (m *Machine) denied(name File, own *holding, access, deny Access) bool {
	f := m.files[name]
	if f == nil {
		return false
	}
	for h := range f.holdings {
		if h.kind == isOpen && h != own && (h.deny&access != 0 || h.access&deny != 0) {
			return true
		}
	}
	return false
}

// UndoOpen takes back what the Open that gave a its stateid has done, for a server that fails
// after it, in the same COMPOUND.
func (m *Machine) UndoOpen(c *Call, a *wire.Open) {
	m.enter()
	defer m.leave()
	if d := m.holdings[a.Delegation.Stateid.Other]; d != nil && (a.Delegation.Type == wire.DelegRead || a.Delegation.Type == wire.DelegWrite) {
		m.remove(d)
	}
	a.Delegation = wire.Delegation{}
	h := m.holdings[a.Stateid.Other]
	switch {
	case h == nil || h.gone != wire.OK || h.before == nil:
	case h.id != a.Stateid:
		// Another OPEN by this owner came between: what it has must not be taken.
	case h.before.seq == 0:
		m.remove(h)
	default:
		h.id.Seqid, h.access, h.deny, h.pairs = h.before.seq, h.before.access, h.before.deny, h.before.pairs
		h.before = nil
	}
}

// OpenDowngrade is OPEN_DOWNGRADE (section 18.18).
func (m *Machine) OpenDowngrade(c *Call, f File, a *wire.OpenDowngrade) wire.Status {
	m.enter()
	defer m.leave()
	h, st := m.held(m.caller(c), a.Stateid, isOpen, f)
	if st != wire.OK {
		return st
	}
	access, deny := Access(a.Access&^wants), Access(a.Deny)
	if access == 0 || access&^h.access != 0 || deny&^h.deny != 0 {
		return errInval
	}
	// What remains must be the union of some of the OPENs.
	var left uint16
	var a2, d2 Access
	for i := range Access(16) {
		if pa, pd := i%4, i/4; h.pairs&(1<<i) != 0 && pa&^access == 0 && pd&^deny == 0 {
			left |= 1 << i
			a2, d2 = a2|pa, d2|pd
		}
	}
	if a2 != access || d2 != deny {
		return errInval
	}
	h.access, h.deny, h.pairs, h.before = access, deny, left, nil
	a.ResStateid = h.bump()
	return wire.OK
}

// Close is CLOSE (section 18.2). ErrLocksHeld: somebody has locks by this open.
func (m *Machine) Close(c *Call, f File, a *wire.Close) wire.Status {
	m.enter()
	defer m.leave()
	h, st := m.held(m.caller(c), a.Stateid, isOpen, f)
	if st != wire.OK {
		return st
	}
	for _, l := range h.locks {
		if len(l.set) > 0 {
			return wire.ErrLocksHeld
		}
	}
	m.remove(h)
	a.ResStateid = wire.InvalidStateid
	return wire.OK
}
