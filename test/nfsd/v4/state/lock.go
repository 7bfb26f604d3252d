package state

import (
	"slices"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// waiter is a lock that was denied to who waits for it. The server keeps no promise: who
// waits is told that it may ask again. Machine.mu guards it.
type waiter struct {
	client *client
	owner  string
	file   *file
	r      ranges.Range
	since  time.Time
}

// lockRange is the range of a LOCK, LOCKT or LOCKU; ok is false if there is none such
// (section 18.10.3).
func lockRange(t wire.LockType, offset, length uint64) (r ranges.Range, ok bool) {
	r = ranges.Range{First: offset, Last: ranges.End, Exclusive: t == wire.WriteLock || t == wire.WriteLockWait}
	if length != wire.ToEnd {
		r.Last = offset + length - 1
	}
	return r, length != 0 && (length == wire.ToEnd || length <= ^offset)
}

// Lock is LOCK (section 18.10). With ErrDenied, a.Denied says who has it; the owner of a lock
// that waits is told by Callback when it may try again.
func (m *Machine) Lock(c *Call, f File, a *wire.Lock) wire.Status {
	m.enter()
	defer m.leave()
	cl := m.caller(c)
	r, ok := lockRange(a.Type, a.Offset, a.Length)
	if !ok {
		return errInval
	}
	open, l, st := m.lockState(cl, f, a)
	if st != wire.OK {
		return st
	}
	if st := m.reclaiming(cl, a.Reclaim); st != wire.OK {
		return st
	}
	need := Read
	if r.Exclusive {
		need = Write
	}
	if open.access&need == 0 {
		return wire.ErrOpenMode
	}
	owner := a.Owner.Owner
	if !a.New {
		owner = l.owner
	}
	if other, with := m.lockConflict(open.file, cl, owner, r); other != nil {
		if a.Reclaim {
			return wire.ErrReclaimConflict
		}
		return m.deny(cl, owner, open.file, r, a.Type, other, with, &a.Denied)
	}
	m.unwait(cl, func(w *waiter) bool { return w.owner == owner && w.file == open.file && w.r.Overlaps(r.First, r.Last) })
	if l == nil {
		l = m.hold(isLock, cl, f, owner)
		l.open = open
		open.locks[owner] = l
	} else {
		l.bump()
	}
	l.set = l.set.Lock(r)
	a.Stateid = l.id
	m.wake(l.file) // a lock for writing may have become one for reading
	return wire.OK
}

// lockState is the open that LOCK is by, and what its owner has locked by it already, or nil.
// mu is held.
func (m *Machine) lockState(cl *client, f File, a *wire.Lock) (open, l *holding, st wire.Status) {
	if cl == nil {
		return nil, nil, wire.ErrDelay
	}
	if a.New {
		if open, st = m.held(cl, a.OpenStateid, isOpen, f); st != wire.OK {
			return nil, nil, st
		}
		return open, open.locks[a.Owner.Owner], wire.OK
	}
	if l, st = m.held(cl, a.LockStateid, isLock, f); st != wire.OK {
		return nil, nil, st
	}
	return l.open, l, wire.OK
}

// lockConflict finds a lock of another owner. mu is held.
func (m *Machine) lockConflict(f *file, cl *client, owner string, r ranges.Range) (*holding, ranges.Range) {
	if f == nil {
		return nil, ranges.Range{}
	}
	for h := range f.holdings {
		if h.kind != isLock || h.client == cl && h.owner == owner {
			continue
		}
		if with, yes := h.set.Conflict(r); yes {
			return h, with
		}
	}
	return nil, ranges.Range{}
}

// deny answers a lock that cannot be had, and has it wait if it wants to. mu is held.
func (m *Machine) deny(cl *client, owner string, f *file, r ranges.Range, t wire.LockType, other *holding, with ranges.Range, d *wire.Denied) wire.Status {
	if t == wire.ReadLockWait || t == wire.WriteLockWait {
		w := &waiter{client: cl, owner: owner, file: f, r: r, since: m.now}
		if m.deadlock(w, map[waitingOwner]bool{}, waitingOwner{cl, owner}) {
			return wire.ErrDeadlock
		}
		m.unwait(cl, w.same)
		f.waiting = append(f.waiting, w)
		cl.waiting = append(cl.waiting, w)
	}
	fillDenied(d, other, with)
	return wire.ErrDenied
}

func (w *waiter) same(o *waiter) bool {
	return w.client == o.client && w.owner == o.owner && w.file == o.file && w.r == o.r
}

func fillDenied(d *wire.Denied, other *holding, with ranges.Range) {
	*d = wire.Denied{Offset: with.First, Length: with.Last - with.First + 1, Type: wire.ReadLock,
		Owner: wire.Owner{ClientID: other.client.id, Owner: other.owner}}
	if with.Exclusive {
		d.Type = wire.WriteLock
	}
	if with.Last == ranges.End {
		d.Length = wire.ToEnd
	}
}

type waitingOwner struct {
	client *client
	owner  string
}

// deadlock reports whether w waits, over any number of others, for owner. mu is held.
func (m *Machine) deadlock(w *waiter, seen map[waitingOwner]bool, owner waitingOwner) bool {
	for h := range w.file.holdings {
		o := waitingOwner{h.client, h.owner}
		if h.kind != isLock || o == (waitingOwner{w.client, w.owner}) || seen[o] {
			continue
		}
		if _, yes := h.set.Conflict(w.r); !yes {
			continue
		}
		if o == owner {
			return true
		}
		seen[o] = true
		for _, next := range h.client.waiting {
			// One that has not asked for a lease has given up.
			if next.owner == h.owner && m.now.Sub(next.since) < m.cfg.Lease && m.deadlock(next, seen, owner) {
				return true
			}
		}
	}
	return false
}

// unwait forgets those locks of a client that wait no more. mu is held.
func (m *Machine) unwait(c *client, which func(*waiter) bool) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w *waiter) bool {
		if !which(w) {
			return false
		}
		w.file.waiting = slices.DeleteFunc(w.file.waiting, func(o *waiter) bool { return o == w })
		return true
	})
}

// wake tells those who wait for a lock of a file, and could have it now, to try again. mu is
// held.
func (m *Machine) wake(f *file) {
	for _, w := range slices.Clone(f.waiting) {
		if other, _ := m.lockConflict(f, w.client, w.owner, w.r); other != nil {
			continue
		}
		m.unwait(w.client, func(o *waiter) bool { return o == w })
		m.owed = append(m.owed, Callback{Kind: CallNotifyLock, Client: w.client.id, File: f.name,
			Owner: wire.Owner{ClientID: w.client.id, Owner: w.owner}})
	}
}

// LockT is LOCKT (section 18.11).
func (m *Machine) LockT(c *Call, f File, a *wire.LockT) wire.Status {
	m.enter()
	defer m.leave()
	cl := m.caller(c)
	r, ok := lockRange(a.Type, a.Offset, a.Length)
	switch {
	case !ok:
		return errInval
	case cl == nil:
		return wire.ErrDelay
	case m.inGrace():
		return wire.ErrGrace
	}
	if other, with := m.lockConflict(m.files[f], cl, a.Owner.Owner, r); other != nil {
		fillDenied(&a.Denied, other, with)
		return wire.ErrDenied
	}
	return wire.OK
}

// LockU is LOCKU (section 18.12).
func (m *Machine) LockU(c *Call, f File, a *wire.LockU) wire.Status {
	m.enter()
	defer m.leave()
	r, ok := lockRange(a.Type, a.Offset, a.Length)
	if !ok {
		return errInval
	}
	l, st := m.held(m.caller(c), a.Stateid, isLock, f)
	if st != wire.OK {
		return st
	}
	l.set = l.set.Unlock(r.First, r.Last)
	a.ResStateid = l.bump()
	m.wake(l.file)
	return wire.OK
}
