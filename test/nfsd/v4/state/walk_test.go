package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// check looks for what must never be.
func (m *Machine) check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, h := range m.holdings {
		switch {
		case other != h.id.Other || h.id.Seqid == 0:
			return fmt.Errorf("stateid %v under %x", h.id, other)
		case m.clients[h.client.id] != h.client || !h.client.holdings[h]:
			return fmt.Errorf("%v belongs to no client", h.id)
		case (h.gone == wire.OK) == h.client.revoked[h]:
			return fmt.Errorf("%v: gone with %v, revoked %v", h.id, h.gone, h.client.revoked[h])
		case h.gone == wire.OK && (m.files[h.file.name] != h.file || !h.file.holdings[h]):
			return fmt.Errorf("%v belongs to no file", h.id)
		case h.gone != wire.OK && h.file.holdings[h]:
			return fmt.Errorf("%v is gone and held", h.id)
		case h.kind == isLock && h.gone == wire.OK && h.open.locks[h.owner] != h:
			return fmt.Errorf("locks %v belong to no open", h.id)
		case h.kind == isOpen && (h.access == 0 || h.pairs == 0):
			return fmt.Errorf("open %v for nothing", h.id)
		}
	}
	for name, f := range m.files {
		if len(f.holdings) == 0 || f.name != name {
			return fmt.Errorf("file %s is not held", name)
		}
		for a := range f.holdings {
			for b := range f.holdings {
				if a != b && m.conflicting(a, b) {
					return fmt.Errorf("%v and %v are held of %s at once", a.id, b.id, name)
				}
			}
		}
		for _, w := range f.waiting {
			if other, _ := m.lockConflict(f, w.client, w.owner, w.r); other == nil {
				return fmt.Errorf("a lock of %s waits for nothing", name)
			}
		}
	}
	return nil
}

// conflicting reports whether two holdings of a file cannot be held at once. mu is held.
func (m *Machine) conflicting(a, b *holding) bool {
	switch {
	case a.kind == isOpen && b.kind == isOpen:
		return a.access&b.deny != 0
	case a.kind == isLock && b.kind == isLock:
		if a.client == b.client && a.owner == b.owner {
			return false
		}
		for _, r := range a.set {
			if _, yes := b.set.Conflict(r); yes {
				return true
			}
		}
	case a.kind == isDeleg && b.kind == isDeleg:
		return a.write && a.client != b.client
	case a.kind == isDeleg && b.kind == isOpen && a.client != b.client:
		return a.write || b.access&Write != 0
	}
	return false
}

// walker does things in an order that a source of numbers chooses.
type walker struct {
	*rig
	next  func(n int) int
	users []*user
	// known are stateids of each user, whatever has become of them.
	known map[*user][]wire.Stateid
}

func (w *walker) some(u *user) wire.Stateid {
	all := append([]wire.Stateid{{}, wire.BypassStateid, wire.InvalidStateid}, w.known[u]...)
	if len(all) > 20 {
		all = all[len(all)-20:]
	}
	s := all[w.next(len(all))]
	switch w.next(6) {
	case 0:
		s.Seqid--
	case 1:
		s.Seqid++
	case 2, 3:
		s.Seqid = 0
	}
	return s
}

func (w *walker) file() File { return File([]string{"f", "g", "h"}[w.next(3)]) }

// at is the file of a stateid, mostly, else f.
func (w *walker) at(s wire.Stateid, f File) File {
	w.Machine.mu.Lock()
	h := w.holdings[s.Other]
	w.Machine.mu.Unlock()
	if h == nil || w.next(8) == 0 {
		return f
	}
	return h.file.name
}

func (w *walker) text() string { return []string{"x", "y"}[w.next(2)] }

func (w *walker) keep(u *user, s wire.Stateid) { w.known[u] = append(w.known[u], s) }

// alive is a user whose session lives; who has lost it comes back.
func (w *walker) alive() *user {
	i := w.next(len(w.users))
	u := w.users[i]
	w.Clients() // has the Machine notice who has expired
	w.Machine.mu.Lock()
	lives := w.sessions[u.session] != nil
	w.Machine.mu.Unlock()
	if !lives {
		back := w.arrive(u.owner, byte(1+w.next(2)))
		w.known[back] = w.known[u]
		w.users[i], u = back, back
		if w.next(4) > 0 {
			u.reclaimComplete()
		}
	}
	return u
}

func (w *walker) step() {
	u := w.alive()
	f := w.file()
	offset, length := uint64(w.next(8)), uint64(w.next(5))
	t := wire.LockType(1 + w.next(4))
	switch w.next(20) {
	case 0, 1, 2, 3:
		a := u.opening(w.text(), uint32(w.next(4)), uint32(max(0, w.next(8)-4)))
		a.Access = a.Access&3 | uint32(w.next(3))*wire.WantReadDeleg
		a.Claim = []wire.ClaimType{wire.ClaimFH, wire.ClaimFH, wire.ClaimFH, wire.ClaimPrevious, wire.ClaimDelegCurFH}[w.next(5)]
		a.DelegStateid, a.DelegType = w.some(u), wire.DelegType(w.next(3))
		if u.open(a, f) == wire.OK {
			w.keep(u, a.Stateid)
			if a.Delegation.Type == wire.DelegRead || a.Delegation.Type == wire.DelegWrite {
				w.keep(u, a.Delegation.Stateid)
			}
			if w.next(5) == 0 {
				u.do(func(c *Call) wire.Status { u.UndoOpen(c, a); return wire.OK })
			}
		}
	case 4, 5, 6:
		a := &wire.Lock{Type: t, New: w.next(2) == 0, OpenStateid: w.some(u), LockStateid: w.some(u), Owner: wire.Owner{Owner: w.text()},
			Offset: offset, Length: length, Reclaim: w.next(5) == 0}
		if a.New {
			f = w.at(a.OpenStateid, f)
		} else {
			f = w.at(a.LockStateid, f)
		}
		if u.do(func(c *Call) wire.Status { return u.Lock(c, f, a) }) == wire.OK {
			w.keep(u, a.Stateid)
		}
	case 7:
		u.lockT(f, offset, length)
	case 8, 9:
		s := w.some(u)
		if s, st := u.unlock(w.at(s, f), s, offset, length); st == wire.OK {
			w.keep(u, s)
		}
	case 10, 11:
		s := w.some(u)
		u.close(w.at(s, f), s)
	case 12:
		a := &wire.OpenDowngrade{Stateid: w.some(u), Access: uint32(w.next(4)), Deny: uint32(w.next(4))}
		if u.do(func(c *Call) wire.Status { return u.OpenDowngrade(c, w.at(a.Stateid, f), a) }) == wire.OK {
			w.keep(u, a.ResStateid)
		}
	case 13:
		s := w.some(u)
		u.giveBack(w.at(s, f), s)
	case 14:
		u.free(w.some(u))
	case 15:
		u.io(f, w.some(u), Access(1+w.next(3)))
	case 16:
		w.pass(time.Duration(w.next(int(lease))))
	default:
		w.disturb(u, f)
	}
}

// disturb is what the server does by itself.
func (w *walker) disturb(u *user, f File) {
	switch w.next(8) {
	case 0:
		w.Restart(w.next(2) == 0)
	case 1:
		w.Expire(u.id)
	case 2:
		w.ExpireState(u.id)
	case 3:
		w.Revoke(w.some(u))
	case 4:
		w.Recall(f)
	case 5:
		w.RevokeFile(f)
	case 6:
		w.SetSlots(uint32(w.next(9)))
	case 7:
		w.EndGrace()
	}
}

func newWalker(t *testing.T, next func(n int) int) *walker {
	w := &walker{rig: newRig(t, Config{Delegations: true}), next: next, known: map[*user][]wire.Stateid{}}
	for _, owner := range []string{"a", "b", "c"} {
		w.users = append(w.users, w.user(owner))
	}
	return w
}

// end has all clients go, and looks for what they have left.
func (w *walker) end() {
	for _, id := range w.Clients() {
		w.Expire(id)
	}
	w.pass(lease)
	if n := w.Counts(); n != (Counts{}) || len(w.files) != 0 || len(w.holdings) != 0 {
		w.Fatalf("left: %+v, %d files, %d stateids", n, len(w.files), len(w.holdings))
	}
}

// TestWalk does things at random, and looks after each whether all fits together.
func TestWalk(t *testing.T) {
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 1))
		w := newWalker(t, dice.IntN)
		for i := range 300 {
			w.step()
			if err := w.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
		}
		w.end()
	}
}

// FuzzWalk is TestWalk with the order from the fuzzer.
func FuzzWalk(f *testing.F) {
	f.Add([]byte("open lock close"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19})
	f.Fuzz(func(t *testing.T, order []byte) {
		i := 0
		w := newWalker(t, func(n int) int {
			if i >= len(order) || n <= 0 {
				return 0
			}
			i++
			return int(order[i-1]) % n
		})
		for i < len(order) && i < 2000 {
			w.step()
			if err := w.check(); err != nil {
				t.Fatal(err)
			}
		}
		w.end()
	})
}
