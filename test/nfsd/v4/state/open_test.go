package state

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// TestShares walks every pair of opens: the second is denied if either refuses what the
// other does.
func TestShares(t *testing.T) {
	for a1 := uint32(1); a1 < 4; a1++ {
		for d1 := range uint32(4) {
			for a2 := uint32(1); a2 < 4; a2++ {
				for d2 := range uint32(4) {
					r := newRig(t, Config{})
					u, v := r.user("o"), r.user("p")
					u.mustOpen("x", "f", a1, d1)
					want := wire.OK
					if a1&d2 != 0 || d1&a2 != 0 {
						want = wire.ErrShareDenied
					}
					_, st := v.openAs("x", "f", a2, d2)
					r.want("another client", st, want)
					_, st = u.openAs("y", "f", a2, d2)
					if a2&d2 != 0 { // the other client's stands against it
						want = wire.ErrShareDenied
					}
					r.want("another owner", st, want)
					_, st = v.openAs("x", "g", a2, d2)
					r.want("another file", st, wire.OK)
					// What the owner has open itself does not stand against it.
					if a1&d2 != 0 || d1&a2 != 0 {
						_, st = u.openAs("x", "f", a2, d2)
						r.want("the same owner", st, wire.OK)
					}
				}
			}
		}
	}
}

func TestOpenArguments(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	for _, c := range []struct {
		name   string
		change func(*wire.Open)
		want   wire.Status
	}{
		{"no access", func(a *wire.Open) { a.Access = wire.WantNoDeleg }, nfsclient.ErrInval},
		{"unknown access", func(a *wire.Open) { a.Access |= 4 }, nfsclient.ErrInval},
		{"unknown deny", func(a *wire.Open) { a.Deny = 4 }, nfsclient.ErrInval},
		{"previous delegation", func(a *wire.Open) { a.Claim = wire.ClaimDelegPrevFH }, nfsclient.ErrNotSupp},
		{"reclaim without grace", func(a *wire.Open) { a.Claim = wire.ClaimPrevious }, wire.ErrNoGrace},
		{"no delegation", func(a *wire.Open) { a.Claim = wire.ClaimDelegCurFH }, wire.ErrBadStateid},
		{"client id of the owner is ignored", func(a *wire.Open) { a.Owner.ClientID = 99 }, wire.OK},
	} {
		a := u.opening("x", r_, 0)
		c.change(a)
		r.want(c.name, u.do(func(call *Call) wire.Status { return r.CheckOpen(call, a) }), c.want)
		r.want(c.name, u.open(a, "f"), c.want)
	}
}

// TestStateids is the life of one open stateid (section 8.2).
func TestStateids(t *testing.T) {
	r := newRig(t, Config{})
	u, v := r.user("o"), r.user("p")
	first := u.mustOpen("x", "f", r_, 0)
	if first.Seqid != 1 {
		t.Fatal(first)
	}
	second := u.mustOpen("x", "f", w_, 0)
	if second.Other != first.Other || second.Seqid != 2 {
		t.Fatal(first, second)
	}
	later, unknown := second, second
	later.Seqid++
	unknown.Other[11]++
	for _, c := range []struct {
		name string
		s    wire.Stateid
		want wire.Status
	}{
		{"newest", second, wire.OK},
		{"seqid 0", second.Latest(), wire.OK},
		{"old", first, wire.ErrOldStateid},
		{"of the future", later, wire.ErrBadStateid},
		{"unknown", unknown, wire.ErrBadStateid},
		{"invalid", wire.InvalidStateid, wire.ErrBadStateid},
		{"current, not replaced", wire.CurrentStateid, wire.ErrBadStateid},
		{"almost bypass", wire.Stateid{Seqid: 1, Other: wire.BypassStateid.Other}, wire.ErrBadStateid},
	} {
		r.want("READ, "+c.name, u.io("f", c.s, Read), c.want)
		r.want("TEST_STATEID, "+c.name, u.test(c.s), c.want)
		if c.want != wire.OK {
			r.want("CLOSE, "+c.name, u.close("f", c.s), c.want)
			r.want("FREE_STATEID, "+c.name, u.free(c.s), c.want)
		}
	}
	r.want("of another file", u.io("g", second, Read), wire.ErrBadStateid)
	r.want("CLOSE of another file", u.close("g", second), wire.ErrBadStateid)
	r.want("of another client", v.io("f", second, Read), wire.ErrBadStateid)
	r.want("TEST_STATEID of a special one", u.test(wire.AnonymousStateid), wire.ErrBadStateid)
	r.want("FREE_STATEID of an open", u.free(second), wire.ErrLocksHeld)
	r.want("CLOSE", u.close("f", second), wire.OK)
	r.want("CLOSE again", u.close("f", second), wire.ErrBadStateid)
	if len(r.released) != 1 || r.released[0] != "f" {
		t.Errorf("released %q", r.released)
	}
	if again := u.mustOpen("x", "f", r_, 0); again.Other == first.Other {
		t.Error("a stateid came twice")
	}
}

// The seqid of a stateid skips 0, which means the newest.
func TestSeqidWraps(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	s := u.mustOpen("x", "f", r_, 0)
	r.Machine.holdings[s.Other].id.Seqid = 1<<32 - 1
	last := s
	last.Seqid = 1<<32 - 1
	if next := u.mustOpen("x", "f", r_, 0); next.Seqid != 1 {
		t.Fatal(next)
	}
	r.want("the one before", u.io("f", last, Read), wire.ErrOldStateid)
}

func TestCheckIO(t *testing.T) {
	r := newRig(t, Config{})
	u, v := r.user("o"), r.user("p")
	rd, wr := u.mustOpen("x", "r", r_, 0), u.mustOpen("x", "w", w_, 0)
	l, st := u.lock("l", "r", rd, wire.ReadLock, 0, 1)
	r.want("LOCK", st, wire.OK)
	v.mustOpen("x", "deny", r_, w_)
	for _, c := range []struct {
		name string
		f    File
		s    wire.Stateid
		a    Access
		want wire.Status
	}{
		{"read for reading", "r", rd, Read, wire.OK},
		{"read for writing", "r", rd, Write, wire.ErrOpenMode},
		{"write for reading", "w", wr, Read, wire.OK},
		{"write for writing", "w", wr, Write, wire.OK},
		{"lock, reading", "r", l.Stateid, Read, wire.OK},
		{"lock, writing", "r", l.Stateid, Write, wire.ErrOpenMode},
		{"anonymous", "any", wire.AnonymousStateid, Write, wire.OK},
		{"anonymous, denied", "deny", wire.AnonymousStateid, Write, wire.ErrLocked},
		{"anonymous, not denied", "deny", wire.AnonymousStateid, Read, wire.OK},
		{"bypass, writing", "deny", wire.BypassStateid, Write, wire.ErrLocked},
	} {
		r.want(c.name, u.io(c.f, c.s, c.a), c.want)
	}
	v.mustOpen("x", "secret", r_, r_)
	r.want("anonymous, reading denied", u.io("secret", wire.AnonymousStateid, Read), wire.ErrLocked)
	r.want("bypass, reading denied", u.io("secret", wire.BypassStateid, Read), wire.OK)
}

// TestDowngrade: what remains must be made of OPENs (section 18.18).
func TestDowngrade(t *testing.T) {
	type pair struct{ access, deny uint32 }
	for _, c := range []struct {
		name   string
		opened []pair
		to     pair
		want   wire.Status
	}{
		{"to one of two", []pair{{r_, 0}, {rw_, 0}}, pair{r_, 0}, wire.OK},
		{"to what was never opened", []pair{{rw_, 0}}, pair{r_, 0}, nfsclient.ErrInval},
		{"to the union", []pair{{r_, 0}, {w_, 0}}, pair{rw_, 0}, wire.OK},
		{"to more", []pair{{r_, 0}}, pair{rw_, 0}, nfsclient.ErrInval},
		{"to nothing", []pair{{r_, 0}}, pair{0, 0}, nfsclient.ErrInval},
		{"to more denied", []pair{{r_, 0}}, pair{r_, w_}, nfsclient.ErrInval},
		{"to less denied", []pair{{r_, 0}, {r_, w_}}, pair{r_, 0}, wire.OK},
		{"to less denied, never opened so", []pair{{r_, w_}}, pair{r_, 0}, nfsclient.ErrInval},
		{"to the same", []pair{{r_, w_}}, pair{r_, w_}, wire.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			u := r.user("o")
			var s wire.Stateid
			for _, p := range c.opened {
				s = u.mustOpen("x", "f", p.access, p.deny)
			}
			a := &wire.OpenDowngrade{Stateid: s, Access: c.to.access, Deny: c.to.deny}
			r.want("OPEN_DOWNGRADE", u.do(func(call *Call) wire.Status { return r.OpenDowngrade(call, "f", a) }), c.want)
			if c.want != wire.OK {
				r.want("as before", u.io("f", s, Access(c.opened[0].access)), wire.OK)
				return
			}
			if a.ResStateid.Seqid != s.Seqid+1 || a.ResStateid.Other != s.Other {
				t.Errorf("%v after %v", a.ResStateid, s)
			}
			if c.to.access == r_ {
				r.want("WRITE", u.io("f", a.ResStateid, Write), wire.ErrOpenMode)
			}
			// What is not denied any more, others may do.
			if c.to.deny == 0 {
				r.user("p").mustOpen("x", "f", w_, 0)
			}
		})
	}
}

func TestUndoOpen(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	a := u.opening("x", r_, w_)
	r.want("OPEN", u.open(a, "f"), wire.OK)
	u.do(func(c *Call) wire.Status { r.UndoOpen(c, a); return wire.OK })
	if r.Held("f") {
		t.Error("an open that was undone is held")
	}
	first := u.mustOpen("x", "f", r_, 0)
	a = u.opening("x", w_, r_)
	r.want("OPEN", u.open(a, "f"), wire.OK)
	u.do(func(c *Call) wire.Status { r.UndoOpen(c, a); return wire.OK })
	r.want("the first open", u.io("f", first, Read), wire.OK)
	r.want("WRITE", u.io("f", first, Write), wire.ErrOpenMode)
	r.user("p").mustOpen("x", "f", r_, 0)
	// Not if somebody has opened more in between.
	a = u.opening("x", w_, 0)
	r.want("OPEN", u.open(a, "f"), wire.OK)
	newest := u.mustOpen("x", "f", w_, 0)
	u.do(func(c *Call) wire.Status { r.UndoOpen(c, a); return wire.OK })
	r.want("WRITE by the later", u.io("f", newest, Write), wire.OK)
}

// What was revoked says why, raises its bit, and is there until it is freed.
func TestRevoked(t *testing.T) {
	for _, c := range []struct {
		name   string
		revoke func(*user, wire.Stateid)
		want   wire.Status
		bit    uint32
	}{
		{"by the administrator", func(u *user, s wire.Stateid) { u.Revoke(s) }, wire.ErrAdminRevoked, wire.SeqAdminStateRevoked},
		{"with its file", func(u *user, _ wire.Stateid) { u.RevokeFile("f") }, wire.ErrAdminRevoked, wire.SeqAdminStateRevoked},
		{"all expired", func(u *user, _ wire.Stateid) { u.ExpireState(u.id) }, wire.ErrExpired, wire.SeqExpiredAllStateRevoked},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			u := r.user("o")
			s := u.mustOpen("x", "f", rw_, rw_)
			l, st := u.lock("l", "f", s, wire.WriteLock, 0, 10)
			r.want("LOCK", st, wire.OK)
			c.revoke(u, s)
			if b := u.bits(); b != c.bit {
				t.Errorf("bits %x", b)
			}
			for _, s := range []wire.Stateid{s, l.Stateid} {
				r.want("WRITE", u.io("f", s, Write), c.want)
				r.want("TEST_STATEID", u.test(s), c.want)
			}
			r.want("CLOSE", u.close("f", s), c.want)
			_, st = u.unlock("f", l.Stateid, 0, 1)
			r.want("LOCKU", st, c.want)
			// Others can have it at once, and so can its former owner.
			r.user("p").mustOpen("x", "f", rw_, 0)
			again := u.mustOpen("x", "f", rw_, 0)
			l2, st := u.lock("l", "f", again, wire.WriteLock, 0, 10)
			r.want("LOCK again", st, wire.OK)
			r.want("FREE_STATEID", u.free(l.Stateid), wire.OK)
			if b := u.bits(); b != c.bit {
				t.Errorf("bits %x while one is left", b)
			}
			r.want("FREE_STATEID", u.free(s), wire.OK)
			if b := u.bits(); b != 0 {
				t.Errorf("bits %x after all were freed", b)
			}
			r.want("FREE_STATEID again", u.free(s), wire.ErrBadStateid)
			// Freeing the former has not touched the latter.
			r.want("LOCKT", r.user("q").lockT("f", 0, 1), wire.ErrDenied)
			_, st = u.unlock("f", l2.Stateid, 0, 10)
			r.want("LOCKU of the new lock", st, wire.OK)
		})
	}
}

func (u *user) lockT(f File, offset, length uint64) wire.Status {
	u.Helper()
	a := &wire.LockT{Type: wire.WriteLock, Owner: wire.Owner{Owner: "test"}, Offset: offset, Length: length}
	return u.do(func(c *Call) wire.Status { return u.LockT(c, f, a) })
}

func TestExpire(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	u.mustOpen("x", "f", rw_, rw_)
	if !r.Expire(u.id) || r.Expire(u.id) || r.Held("f") {
		t.Error("not expired, or twice")
	}
	_, st := r.Sequence(u.peer, u.sequence(0, u.seq+1), Compound{Ops: 1})
	r.want("SEQUENCE", st, wire.ErrBadSession)
}

// A call that outlives its client's record ends without harm.
func TestExpireUnderCall(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	s := u.mustOpen("x", "f", rw_, 0)
	c := u.begin()
	r.Expire(u.id)
	r.want("WRITE", r.CheckIO(c, "f", s, Write), wire.ErrDelay)
	r.want("OPEN", r.Open(c, u.opening("x", r_, 0), Opening{File: "f"}), wire.ErrDelay)
	_, _, st := r.lockState(r.caller(c), "f", &wire.Lock{})
	r.want("LOCK", st, wire.ErrDelay)
	r.want("CLOSE", r.Close(c, "f", &wire.Close{Stateid: s}), wire.ErrBadStateid)
	c.End(nil)
}
