package state

import (
	"encoding/binary"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// Access is what somebody does with a file, or wants to.
type Access uint32

const (
	// Read and Write are of data; SETATTR of the size is Write.
	Read  Access = wire.ShareRead
	Write Access = wire.ShareWrite
)

type kind int

const (
	isOpen kind = iota
	isLock
	isDeleg
	isCopy
)

// holding is what a stateid names: an open, the locks of one owner by one open, a
// delegation, or a copy. Machine.mu guards it.
type holding struct {
	kind   kind
	id     wire.Stateid // Seqid is the newest
	client *client
	file   *file
	// gone is why it is not held any more, though the client does not know yet:
	// ErrExpired, ErrAdminRevoked or ErrDelegRevoked; OK while it is held.
	gone wire.Status
	// owner is that of the open, or of the locks.
	owner string

	// Of an open: the union of what was opened, the pairs it came from (bit access +
	// 4 * deny), its locks by their owners, and what it was before the last OPEN.
	access, deny Access
	pairs        uint16
	locks        map[string]*holding
	before       *before

	// Of locks.
	open *holding
	set  ranges.Set

	// Of a delegation: the call that granted it, and when it was recalled first.
	write        bool
	granted      Referring
	recalled     time.Time
	change, size uint64

	// Of a copy that goes on after its answer.
	copying *copying
}

// before is what UndoOpen goes back to.
type before struct {
	seq          uint32
	access, deny Access
	pairs        uint16
}

// file is a file that something is held of. Machine.mu guards it.
type file struct {
	name     File
	holdings map[*holding]bool
	waiting  []*waiter
}

// hold makes a holding. mu is held.
func (m *Machine) hold(k kind, c *client, f File, owner string) *holding {
	h := &holding{kind: k, client: c, owner: owner}
	h.id.Seqid = 1
	binary.BigEndian.PutUint32(h.id.Other[:], m.boot)
	binary.BigEndian.PutUint64(h.id.Other[4:], m.next())
	if h.file = m.files[f]; h.file == nil {
		h.file = &file{name: f, holdings: map[*holding]bool{}}
		m.files[f] = h.file
	}
	h.file.holdings[h], c.holdings[h], m.holdings[h.id.Other] = true, true, h
	return h
}

// remove forgets a holding, and the locks of an open with it. mu is held.
func (m *Machine) remove(h *holding) {
	for _, l := range h.locks {
		m.remove(l)
	}
	if h.gone == wire.OK {
		m.release(h)
	}
	delete(h.client.holdings, h)
	delete(h.client.revoked, h)
	delete(m.holdings, h.id.Other)
	if len(h.client.revoked) == 0 {
		h.client.allExpired = false
	}
}

// release takes what is held from the file, so that others may have it. mu is held.
func (m *Machine) release(h *holding) {
	if h.kind == isLock {
		delete(h.open.locks, h.owner)
	}
	f := h.file
	delete(f.holdings, h)
	m.wake(f)
	if len(f.holdings) == 0 && m.files[f.name] == f {
		delete(m.files, f.name)
		m.released = append(m.released, f.name)
	}
}

// revoke takes a holding from its client, which learns why when it uses the stateid, and has
// to free it. mu is held.
func (m *Machine) revoke(h *holding, why wire.Status) {
	if h.gone != wire.OK {
		return
	}
	for _, l := range h.locks {
		m.revoke(l, why)
	}
	h.gone = why
	h.client.revoked[h] = true
	m.release(h)
}

// revokedBit is the status bit of SEQUENCE for a holding that is gone.
func (h *holding) revokedBit() uint32 {
	switch h.gone {
	case wire.ErrExpired:
		return wire.SeqExpiredSomeStateRevoked
	case wire.ErrAdminRevoked:
		return wire.SeqAdminStateRevoked
	case wire.ErrDelegRevoked:
		return wire.SeqRecallableStateRevoked
	}
	return 0
}

// bump gives a holding its next seqid, which is never 0 (section 8.2.2).
func (h *holding) bump() wire.Stateid {
	if h.id.Seqid++; h.id.Seqid == 0 {
		h.id.Seqid = 1
	}
	return h.id
}

// special reports whether s is none that a Machine gives out (section 8.2.3).
func special(s wire.Stateid) bool {
	return s.Other == wire.AnonymousStateid.Other || s.Other == wire.BypassStateid.Other
}

// find finds what a client's stateid names, in any state. mu is held.
func (m *Machine) find(c *client, s wire.Stateid) (*holding, wire.Status) {
	h := m.holdings[s.Other]
	switch {
	case special(s), h == nil, h.client != c:
		return nil, wire.ErrBadStateid
	case h.gone != wire.OK:
		return h, h.gone
	case s.Seqid == 0 || s.Seqid == h.id.Seqid:
		return h, wire.OK
	case int32(s.Seqid-h.id.Seqid) > 0:
		return nil, wire.ErrBadStateid
	}
	return h, wire.ErrOldStateid
}

// held finds a holding of one kind and file. mu is held.
func (m *Machine) held(c *client, s wire.Stateid, k kind, f File) (*holding, wire.Status) {
	h, st := m.find(c, s)
	if h != nil && (h.kind != k || h.file.name != f) {
		return nil, wire.ErrBadStateid
	}
	return h, st
}

// caller is the client of a call, nil if it has been forgotten since. The call is then answered
// with ErrDelay: the next SEQUENCE tells the client all. mu is held.
func (m *Machine) caller(c *Call) *client {
	if c == nil {
		return nil
	}
	return m.clients[c.Client]
}

// CheckIO says whether s, which may be a special stateid, lets the client read or write f
// (section 8.2): with READ, WRITE, SETATTR of the size, SEEK, ALLOCATE, DEALLOCATE, COPY and
// CLONE. ErrDelay: a delegation is being recalled. ErrLocked: a special stateid, and a
// share reservation stands against it.
func (m *Machine) CheckIO(c *Call, f File, s wire.Stateid, want Access) wire.Status {
	m.enter()
	defer m.leave()
	cl := m.caller(c)
	if cl == nil {
		return wire.ErrDelay
	}
	if s == wire.AnonymousStateid || s == wire.BypassStateid {
		return m.checkSpecial(cl, f, want, s == wire.BypassStateid)
	}
	h, st := m.find(cl, s)
	if st != wire.OK {
		return st
	}
	if h.file.name != f || h.kind == isCopy {
		return wire.ErrBadStateid
	}
	can := Read
	switch h.kind {
	case isOpen:
		can |= h.access
	case isLock:
		can |= h.open.access
	case isDeleg:
		if h.write {
			can |= Write
		}
	}
	// Reading is let pass by an open for writing alone: clients read pages that they
	// change in part (section 9.1.2 allows it).
	if want&^can != 0 {
		return wire.ErrOpenMode
	}
	return wire.OK
}

// checkSpecial is CheckIO without an open. mu is held.
func (m *Machine) checkSpecial(cl *client, name File, want Access, bypass bool) wire.Status {
	if m.inGrace() {
		return wire.ErrGrace
	}
	if st := m.conflict(cl, name, want, 0); st != wire.OK {
		return st
	}
	f := m.files[name]
	if f == nil || bypass && want == Read {
		return wire.OK
	}
	for h := range f.holdings {
		if h.kind == isOpen && h.deny&want != 0 {
			return wire.ErrLocked
		}
	}
	return wire.OK
}

// TestStateid is TEST_STATEID (section 18.48): a status for each.
func (m *Machine) TestStateid(c *Call, a *wire.TestStateID) wire.Status {
	m.enter()
	defer m.leave()
	cl := m.caller(c)
	a.Statuses = a.Statuses[:0]
	for _, s := range a.Stateids {
		_, st := m.find(cl, s)
		a.Statuses = append(a.Statuses, st)
	}
	return wire.OK
}

// FreeStateid is FREE_STATEID (section 18.38): of what was revoked, and of locks that are
// none any more.
func (m *Machine) FreeStateid(c *Call, a *wire.FreeStateID) wire.Status {
	m.enter()
	defer m.leave()
	h, st := m.find(m.caller(c), a.Stateid)
	switch {
	case h == nil:
		return wire.ErrBadStateid
	case h.gone != wire.OK:
	case st != wire.OK:
		return st
	case h.kind != isLock || len(h.set) > 0:
		return wire.ErrLocksHeld
	}
	m.remove(h)
	return wire.OK
}

// Held reports whether anything of the file is open, locked or delegated.
func (m *Machine) Held(f File) bool {
	m.enter()
	defer m.leave()
	return m.files[f] != nil
}
