package state

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

func TestLockConflicts(t *testing.T) {
	for _, c := range []struct {
		name           string
		held, want     wire.LockType
		offset, length uint64
		st             wire.Status
	}{
		{"read beside read", wire.ReadLock, wire.ReadLock, 0, 10, wire.OK},
		{"write beside read", wire.ReadLock, wire.WriteLock, 5, 10, wire.ErrDenied},
		{"read beside write", wire.WriteLock, wire.ReadLock, 19, 1, wire.ErrDenied},
		{"before", wire.WriteLock, wire.WriteLock, 0, 10, wire.OK},
		{"behind", wire.WriteLock, wire.WriteLock, 20, wire.ToEnd, wire.OK},
		{"to the end", wire.WriteLock, wire.WriteLock, 0, wire.ToEnd, wire.ErrDenied},
		{"no bytes", wire.WriteLock, wire.WriteLock, 0, 0, nfsclient.ErrInval},
		{"beyond the end", wire.WriteLock, wire.WriteLock, 2, 1<<64 - 2, nfsclient.ErrInval},
		{"just beyond the end", wire.WriteLock, wire.WriteLock, 20, 1<<64 - 20, nfsclient.ErrInval},
		{"just before the end", wire.WriteLock, wire.WriteLock, 20, 1<<64 - 21, wire.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			u, v := r.user("o"), r.user("p")
			s := u.mustOpen("x", "f", rw_, 0)
			_, st := u.lock("mine", "f", s, c.held, 10, 10)
			r.want("LOCK", st, wire.OK)
			s2 := v.mustOpen("x", "f", rw_, 0)
			a, st := v.lock("mine", "f", s2, c.want, c.offset, c.length)
			r.want("LOCK by another client", st, c.st)
			if c.st == wire.ErrDenied {
				want := wire.Denied{Offset: 10, Length: 10, Type: c.held, Owner: wire.Owner{ClientID: u.id, Owner: "mine"}}
				if a.Denied != want {
					t.Errorf("denied by %+v", a.Denied)
				}
			}
			_, st = u.lock("mine", "f", s, c.want, c.offset, max(c.length, 1))
			if c.st != nfsclient.ErrInval && c.want == c.held {
				if c.st == wire.OK && c.want == wire.WriteLock {
					r.want("LOCK of what another has", st, wire.ErrDenied)
				} else {
					r.want("LOCK by the same owner", st, wire.OK)
				}
			}
		})
	}
}

func TestLockStateid(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	s := u.mustOpen("x", "f", rw_, 0)
	rd := u.mustOpen("y", "f", r_, 0)
	_, st := u.lock("l", "f", rd, wire.WriteLock, 0, 1)
	r.want("LOCK for writing by an open for reading", st, wire.ErrOpenMode)
	wr := u.mustOpen("z", "f", w_, 0)
	_, st = u.lock("l", "f", wr, wire.ReadLock, 0, 1)
	r.want("LOCK for reading by an open for writing", st, wire.ErrOpenMode)

	a, st := u.lock("l", "f", s, wire.WriteLock, 0, 10)
	r.want("LOCK", st, wire.OK)
	b, st := u.lock("l", "f", s, wire.WriteLock, 20, 10)
	r.want("LOCK by the same owner, said to be new", st, wire.OK)
	if a.Stateid.Seqid != 1 || b.Stateid.Seqid != 2 || a.Stateid.Other != b.Stateid.Other {
		t.Errorf("%v %v", a.Stateid, b.Stateid)
	}
	more := &wire.Lock{Type: wire.WriteLock, LockStateid: a.Stateid, Offset: 40, Length: 1}
	r.want("old stateid", u.do(func(c *Call) wire.Status { return r.Lock(c, "f", more) }), wire.ErrOldStateid)
	more.LockStateid = s
	r.want("an open's stateid", u.do(func(c *Call) wire.Status { return r.Lock(c, "f", more) }), wire.ErrBadStateid)
	more.LockStateid = b.Stateid
	r.want("of another file", u.do(func(c *Call) wire.Status { return r.Lock(c, "g", more) }), wire.ErrBadStateid)
	r.want("LOCK more", u.do(func(c *Call) wire.Status { return r.Lock(c, "f", more) }), wire.OK)

	r.want("CLOSE with locks", u.close("f", s), wire.ErrLocksHeld)
	r.want("FREE_STATEID with locks", u.free(more.Stateid), wire.ErrLocksHeld)
	left, st := u.unlock("f", more.Stateid, 0, wire.ToEnd)
	r.want("LOCKU", st, wire.OK)
	_, st = u.unlock("f", more.Stateid, 0, wire.ToEnd)
	r.want("LOCKU, old stateid", st, wire.ErrOldStateid)
	_, st = u.unlock("f", left, 0, 0)
	r.want("LOCKU of nothing", st, nfsclient.ErrInval)
	_, st = u.unlock("f", s, 0, 1)
	r.want("LOCKU by an open's stateid", st, wire.ErrBadStateid)
	r.want("FREE_STATEID", u.free(left), wire.OK)
	r.want("after it", u.io("f", left, Read), wire.ErrBadStateid)
	r.want("CLOSE", u.close("f", s), wire.OK)
}

// CLOSE takes lock stateids without locks with it.
func TestCloseFreesLockStateids(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	s := u.mustOpen("x", "f", rw_, 0)
	a, _ := u.lock("l", "f", s, wire.WriteLock, 0, 10)
	left, st := u.unlock("f", a.Stateid, 0, 10)
	r.want("LOCKU", st, wire.OK)
	r.want("CLOSE", u.close("f", s), wire.OK)
	r.want("TEST_STATEID", u.test(left), wire.ErrBadStateid)
	if r.Held("f") {
		t.Error("still held")
	}
}

func TestLockT(t *testing.T) {
	r := newRig(t, Config{})
	u, v := r.user("o"), r.user("p")
	s := u.mustOpen("x", "f", rw_, 0)
	_, st := u.lock("test", "f", s, wire.ReadLock, 5, wire.ToEnd)
	r.want("LOCK", st, wire.OK)
	r.want("own", u.lockT("f", 0, wire.ToEnd), wire.OK)
	r.want("before", v.lockT("f", 0, 5), wire.OK)
	r.want("no file", v.lockT("g", 0, 5), wire.OK)
	r.want("no bytes", v.lockT("f", 0, 0), nfsclient.ErrInval)
	a := &wire.LockT{Type: wire.WriteLock, Owner: wire.Owner{Owner: "test"}, Offset: 0, Length: 100}
	r.want("another's", v.do(func(c *Call) wire.Status { return r.LockT(c, "f", a) }), wire.ErrDenied)
	want := wire.Denied{Offset: 5, Length: wire.ToEnd, Type: wire.ReadLock, Owner: wire.Owner{ClientID: u.id, Owner: "test"}}
	if a.Denied != want {
		t.Errorf("%+v", a.Denied)
	}
}

// Who waits is told when the lock can be had: by an unlock, a downgrade, a close after it, or
// the end of the holder.
func TestNotifyLock(t *testing.T) {
	for _, c := range []struct {
		name string
		free func(r *rig, u *user, open, lock wire.Stateid)
	}{
		{"unlock", func(r *rig, u *user, _, l wire.Stateid) { u.unlock("f", l, 0, 100) }},
		{"downgrade", func(r *rig, u *user, o, _ wire.Stateid) { u.lock("l", "f", o, wire.ReadLock, 0, 100) }},
		{"expiry", func(r *rig, u *user, _, _ wire.Stateid) { r.Expire(u.id) }},
		{"revocation", func(r *rig, u *user, _, l wire.Stateid) { r.Revoke(l) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			u, v := r.user("o"), r.user("p")
			s, s2 := u.mustOpen("x", "f", rw_, 0), v.mustOpen("x", "f", rw_, 0)
			a, st := u.lock("l", "f", s, wire.WriteLock, 0, 100)
			r.want("LOCK", st, wire.OK)
			for range 2 { // asking again is not another lock that waits
				_, st = v.lock("w", "f", s2, wire.ReadLockWait, 50, 10)
				r.want("LOCK that waits", st, wire.ErrDenied)
			}
			_, st = v.lock("n", "f", s2, wire.ReadLock, 50, 10)
			r.want("LOCK that does not wait", st, wire.ErrDenied)
			u.unlock("f", a.Stateid, 0, 1)
			if owed := r.owedCalls(); len(owed) != 0 {
				t.Fatalf("%+v for another range", owed)
			}
			u.lock("l", "f", s, wire.WriteLock, 0, 1)
			a.Stateid.Seqid = 0
			c.free(r, u, s, a.Stateid)
			owed := r.owedCalls()
			if len(owed) != 1 || owed[0].Kind != CallNotifyLock || owed[0].Client != v.id || owed[0].File != "f" || owed[0].Owner.Owner != "w" {
				t.Fatalf("%+v", owed)
			}
			_, st = v.lock("w", "f", s2, wire.ReadLockWait, 50, 10)
			r.want("LOCK again", st, wire.OK)
			if n := r.Counts(); n.Waiting != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestDeadlock(t *testing.T) {
	r := newRig(t, Config{})
	u, v := r.user("o"), r.user("p")
	s, s2 := u.mustOpen("x", "f", rw_, 0), v.mustOpen("x", "f", rw_, 0)
	u.lock("l", "f", s, wire.WriteLock, 0, 1)
	v.lock("l", "f", s2, wire.WriteLock, 1, 1)
	_, st := u.lock("l", "f", s, wire.WriteLockWait, 1, 1)
	r.want("the first waits", st, wire.ErrDenied)
	_, st = v.lock("l", "f", s2, wire.WriteLock, 0, 1)
	r.want("the second, not waiting", st, wire.ErrDenied)
	_, st = v.lock("l", "f", s2, wire.WriteLockWait, 0, 1)
	r.want("the second waits", st, wire.ErrDeadlock)
	// Who has not asked for a lease has given up.
	for range 3 {
		r.pass(lease / 2)
		u.bits()
		v.bits()
	}
	_, st = v.lock("l", "f", s2, wire.WriteLockWait, 0, 1)
	r.want("later", st, wire.ErrDenied)
}
