package state

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

func (u *user) previous(owner string, f File, access, deny uint32) (wire.Stateid, wire.Status) {
	u.Helper()
	a := u.opening(owner, access, deny)
	a.Claim = wire.ClaimPrevious
	st := u.open(a, f)
	return a.Stateid, st
}

func (u *user) reclaimLock(owner string, f File, open wire.Stateid, offset, length uint64) wire.Status {
	u.Helper()
	a := &wire.Lock{Type: wire.WriteLock, Reclaim: true, New: true, OpenStateid: open, Owner: wire.Owner{Owner: owner}, Offset: offset, Length: length}
	return u.do(func(c *Call) wire.Status { return u.Lock(c, f, a) })
}

// TestRestart is a restart with grace, seen by a client that held state, one that did not,
// and one that is new.
func TestRestart(t *testing.T) {
	r := newRig(t, Config{})
	u, idle := r.user("held"), r.user("idle")
	old := u.mustOpen("x", "f", rw_, 0)
	_, st := u.lock("l", "f", old, wire.WriteLock, 0, 10)
	r.want("LOCK", st, wire.OK)
	r.Restart(true)
	if !r.InGrace() {
		t.Fatal("no grace period")
	}
	if len(r.released) != 1 || r.released[0] != "f" {
		t.Errorf("released %q", r.released)
	}
	for _, u := range []*user{u, idle} {
		_, st = r.Sequence(u.peer, u.sequence(0, u.seq+1), Compound{Ops: 1})
		r.want("SEQUENCE", st, wire.ErrBadSession)
		r.want("CREATE_SESSION", r.CreateSession(u.peer, nil, u.creation(u.id, 2)), wire.ErrStaleClientID)
	}
	idle = r.arrive("idle", 1)
	_, st = idle.previous("x", "g", r_, 0)
	r.want("reclaim by who held nothing", st, wire.ErrReclaimBad)
	r.want("RECLAIM_COMPLETE", idle.reclaimComplete(), wire.OK)
	_, st = idle.openAs("x", "f", r_, 0)
	r.want("OPEN during grace", st, wire.ErrGrace)
	r.want("READ without an open", idle.io("f", wire.AnonymousStateid, Read), wire.ErrGrace)
	r.want("LOCKT", idle.lockT("f", 0, 1), wire.ErrGrace)

	u = r.arrive("held", 1)
	if b := u.bits(); b != wire.SeqRestartReclaimNeeded {
		t.Errorf("bits %x", b)
	}
	r.want("the stateid from before", u.io("f", old, Read), wire.ErrBadStateid)
	_, st = u.openAs("x", "f", r_, 0)
	r.want("OPEN before RECLAIM_COMPLETE", st, wire.ErrGrace)
	s, st := u.previous("x", "f", rw_, 0)
	r.want("reclaim", st, wire.OK)
	_, st = u.lock("l", "f", s, wire.WriteLock, 0, 10)
	r.want("LOCK during grace", st, wire.ErrGrace)
	r.want("reclaim of a lock", u.reclaimLock("l", "f", s, 0, 10), wire.OK)
	r.want("conflicting reclaim", u.reclaimLock("m", "f", s, 0, 10), wire.ErrReclaimConflict)
	_, st = u.previous("y", "f", r_, w_)
	r.want("conflicting reclaim", st, wire.ErrReclaimConflict)
	r.want("WRITE", u.io("f", s, Write), wire.OK)
	r.want("RECLAIM_COMPLETE for one file system", u.do(func(c *Call) wire.Status {
		return u.ReclaimComplete(c, &wire.ReclaimComplete{OneFS: true})
	}), wire.OK)
	if !r.InGrace() {
		t.Error("grace ended too early")
	}
	r.want("RECLAIM_COMPLETE", u.reclaimComplete(), wire.OK)
	r.want("RECLAIM_COMPLETE again", u.reclaimComplete(), wire.ErrCompleteAlready)
	if r.InGrace() {
		t.Error("grace goes on though all have reclaimed")
	}
	if b := u.bits(); b != 0 {
		t.Errorf("bits %x", b)
	}
	_, st = u.previous("x", "g", r_, 0)
	r.want("reclaim too late", st, wire.ErrNoGrace)
	r.want("reclaim of a lock too late", u.reclaimLock("l", "f", s, 20, 1), wire.ErrNoGrace)
	idle.mustOpen("x", "f", r_, 0)
}

func TestRestartWithoutGrace(t *testing.T) {
	r := newRig(t, Config{})
	r.user("held").mustOpen("x", "f", rw_, 0)
	r.Restart(false)
	u := r.arrive("held", 1)
	if b := u.bits(); b != 0 {
		t.Errorf("bits %x", b)
	}
	_, st := u.previous("x", "f", rw_, 0)
	r.want("reclaim", st, wire.ErrNoGrace)
	_, st = u.openAs("x", "f", rw_, 0)
	r.want("OPEN before RECLAIM_COMPLETE", st, wire.ErrGrace)
	r.want("RECLAIM_COMPLETE", u.reclaimComplete(), wire.OK)
	u.mustOpen("x", "f", rw_, 0)
}

// A restart that nobody could reclaim after has no grace period.
func TestRestartOfNobody(t *testing.T) {
	r := newRig(t, Config{})
	r.user("idle")
	r.Restart(true)
	if r.InGrace() {
		t.Error("grace for nobody")
	}
}

// Who does not come in time has lost what it held, and whoever came before has it.
func TestGraceEnds(t *testing.T) {
	r := newRig(t, Config{Grace: lease / 2})
	r.user("held").mustOpen("x", "f", rw_, 0)
	r.Restart(true)
	v := r.user("other")
	r.pass(lease/2 - 1)
	_, st := v.openAs("x", "f", rw_, 0)
	r.want("OPEN during grace", st, wire.ErrGrace)
	r.pass(1)
	v.mustOpen("x", "f", rw_, 0)
	_, st = r.arrive("held", 1).previous("x", "f", rw_, 0)
	r.want("reclaim", st, wire.ErrNoGrace)
}

// A second restart during grace takes nothing from who has not reclaimed yet; after grace it
// does (section 8.4.3).
func TestRestartTwice(t *testing.T) {
	r := newRig(t, Config{})
	r.user("late").mustOpen("x", "f", rw_, 0)
	r.Restart(true)
	r.Restart(true)
	u := r.arrive("late", 1)
	_, st := u.previous("x", "f", rw_, 0)
	r.want("reclaim after two restarts", st, wire.OK)

	r = newRig(t, Config{})
	r.user("late").mustOpen("x", "f", rw_, 0)
	other := r.user("other")
	other.mustOpen("x", "g", rw_, 0)
	r.Restart(true)
	r.EndGrace()
	other = r.user("other")
	other.mustOpen("x", "f", rw_, 0)
	r.Restart(true)
	_, st = r.arrive("late", 1).previous("x", "f", rw_, 0)
	r.want("reclaim of what others have had since", st, wire.ErrReclaimBad)
}

// The record of a client that came back and has a new instance still reclaims by its owner.
func TestReclaimByNewInstance(t *testing.T) {
	r := newRig(t, Config{})
	r.user("held").mustOpen("x", "f", rw_, 0)
	r.Restart(true)
	u := r.arrive("held", 2)
	_, st := u.previous("x", "f", rw_, 0)
	r.want("reclaim", st, wire.OK)
}
