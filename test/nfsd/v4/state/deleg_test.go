package state

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// wish opens with a wish for a delegation, or none in particular.
func (u *user) wish(owner string, f File, access, want uint32) (wire.Delegation, wire.Status) {
	u.Helper()
	a := u.opening(owner, access, 0)
	a.Access = access | want
	st := u.open(a, f)
	return a.Delegation, st
}

func (u *user) giveBack(f File, s wire.Stateid) wire.Status {
	u.Helper()
	return u.do(func(c *Call) wire.Status { return u.DelegReturn(c, f, &wire.DelegReturn{Stateid: s}) })
}

func TestGrants(t *testing.T) {
	for _, c := range []struct {
		name         string
		cfg          Config
		before       func(*rig, *user)
		access, want uint32
		got          wire.DelegType
		why          uint32
	}{
		{name: "read", access: r_, got: wire.DelegRead},
		{name: "write", access: rw_, got: wire.DelegWrite},
		{name: "write alone", access: w_, got: wire.DelegWrite},
		{name: "read wanted", access: r_, want: wire.WantReadDeleg, got: wire.DelegRead},
		{name: "none wanted", access: r_, want: wire.WantNoDeleg, got: wire.DelegNoneExt, why: whyNotWanted},
		{name: "cancel", access: r_, want: wire.WantCancel, got: wire.DelegNoneExt, why: whyNotWanted},
		{name: "read wanted with a write open", access: rw_, want: wire.WantReadDeleg, got: wire.DelegNoneExt, why: whyResource},
		{name: "no back channel", access: r_, got: wire.DelegNone, before: func(_ *rig, u *user) { close(u.peer.Conn.(*conn).done) }},
		{name: "no back channel, wanted", access: r_, want: wire.WantAnyDeleg, got: wire.DelegNoneExt, why: whyResource,
			before: func(_ *rig, u *user) { close(u.peer.Conn.(*conn).done) }},
		{name: "read by another", access: r_, got: wire.DelegRead, before: func(r *rig, _ *user) { r.user("p").mustOpen("x", "f", r_, 0) }},
		{name: "write beside a reader", access: rw_, got: wire.DelegNone, before: func(r *rig, _ *user) { r.user("p").mustOpen("x", "f", r_, 0) }},
		{name: "read beside a writer", access: r_, want: wire.WantReadDeleg, got: wire.DelegNoneExt, why: whyContention,
			before: func(r *rig, _ *user) { r.user("p").mustOpen("x", "f", w_, 0) }},
		{name: "own opens", access: rw_, got: wire.DelegWrite, before: func(_ *rig, u *user) { u.mustOpen("z", "f", w_, 0) }},
		{name: "has one", access: r_, got: wire.DelegNone, before: func(_ *rig, u *user) { u.wish("z", "f", r_, 0) }},
		{name: "while a file is changed", access: r_, want: wire.WantReadDeleg, got: wire.DelegNoneExt, why: whyContention,
			before: func(r *rig, _ *user) { r.Cleanup(r.Change()) }},
		{name: "after a change", access: r_, got: wire.DelegRead, before: func(r *rig, _ *user) { r.Change()() }},
		{name: "read beside read", access: r_, got: wire.DelegRead, before: func(r *rig, _ *user) { r.user("p").wish("z", "f", r_, 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{Delegations: true})
			u := r.user("o")
			if c.before != nil {
				c.before(r, u)
			}
			d, st := u.wish("x", "f", c.access, c.want)
			r.want("OPEN", st, wire.OK)
			if d.Type != c.got || d.Type == wire.DelegNoneExt && d.Why != c.why {
				t.Fatalf("%+v", d)
			}
			if d.Type == wire.DelegRead || d.Type == wire.DelegWrite {
				r.want("READ", u.io("f", d.Stateid, Read), wire.OK)
				want := wire.OK
				if d.Type == wire.DelegRead {
					want = wire.ErrOpenMode
				}
				r.want("WRITE", u.io("f", d.Stateid, Write), want)
			}
		})
	}
	r := newRig(t, Config{})
	if d, _ := r.user("o").wish("x", "f", r_, 0); d.Type != wire.DelegNone {
		t.Errorf("%+v from a server without delegations", d)
	}
	r = newRig(t, Config{Delegations: true})
	u := r.user("o")
	a := u.opening("x", rw_, 0)
	a.Access = rw_
	u.do(func(c *Call) wire.Status { return u.Open(c, a, Opening{File: "f", MayWrite: true}) })
	if a.Delegation.Type != wire.DelegNone {
		t.Errorf("%+v to who may not read", a.Delegation)
	}
}

// TestRecall: what conflicts with a delegation recalls it once, waits until it is returned,
// and has it revoked after a lease.
func TestRecall(t *testing.T) {
	type act struct {
		name        string
		read, write bool // conflicts with a read or a write delegation
		do          func(r *rig, v *user) wire.Status
	}
	acts := []act{
		{"open for reading", false, true, func(_ *rig, v *user) wire.Status { _, st := v.openAs("x", "f", r_, 0); return st }},
		{"open for writing", true, true, func(_ *rig, v *user) wire.Status { _, st := v.openAs("x", "f", w_, 0); return st }},
		{"open that denies reading", true, true, func(_ *rig, v *user) wire.Status {
			// The holder's own open may stand against it; the recall comes first.
			_, st := v.openAs("x", "f", w_, r_)
			if st == wire.ErrShareDenied {
				return wire.OK
			}
			return st
		}},
		{"open that truncates", true, true, func(_ *rig, v *user) wire.Status {
			return v.do(func(c *Call) wire.Status {
				return v.Open(c, v.opening("x", r_, 0), Opening{File: "f", Truncate: true})
			})
		}},
		{"anonymous read", false, true, func(_ *rig, v *user) wire.Status { return v.io("f", wire.AnonymousStateid, Read) }},
		{"anonymous write", true, true, func(_ *rig, v *user) wire.Status { return v.io("f", wire.AnonymousStateid, Write) }},
		{"remove", true, true, func(r *rig, v *user) wire.Status {
			return v.do(func(c *Call) wire.Status { return r.Conflict(c, "f", Write) })
		}},
		{"NFSv3 write", true, true, func(r *rig, _ *user) wire.Status { return r.Conflict(nil, "f", Write) }},
		{"NFSv3 read", false, true, func(r *rig, _ *user) wire.Status { return r.Conflict(nil, "f", Read) }},
	}
	for _, write := range []bool{false, true} {
		for _, a := range acts {
			conflicts, access, label := a.read, uint32(r_), "read delegation, "
			if write {
				conflicts, access, label = a.write, rw_, "write delegation, "
			}
			for _, returned := range []bool{true, false} {
				t.Run(label+a.name, func(t *testing.T) {
					r := newRig(t, Config{Delegations: true})
					u, v := r.user("o"), r.user("p")
					d, st := u.wish("x", "f", access, 0)
					r.want("OPEN", st, wire.OK)
					granted := u.seq
					if !conflicts {
						r.want(a.name, a.do(r, v), wire.OK)
						if owed := r.owedCalls(); len(owed) != 0 {
							t.Fatalf("recalled by %s: %+v", a.name, owed)
						}
						return
					}
					for range 3 {
						r.want(a.name, a.do(r, v), wire.ErrDelay)
					}
					owed := r.owedCalls()
					if len(owed) != 1 || owed[0].Kind != CallRecall || owed[0].Client != u.id || owed[0].Stateid != d.Stateid || owed[0].File != "f" {
						t.Fatalf("%+v", owed)
					}
					if *owed[0].Referring != (Referring{Session: u.session, Sequence: granted}) {
						t.Errorf("refers to %+v", *owed[0].Referring)
					}
					// Its holder can use it, and open by it, until it returns it.
					r.want("READ by the holder", u.io("f", d.Stateid, Read), wire.OK)
					if returned {
						r.want("DELEGRETURN", u.giveBack("f", d.Stateid), wire.OK)
						r.want("DELEGRETURN again", u.giveBack("f", d.Stateid), wire.ErrBadStateid)
						r.want(a.name, a.do(r, v), wire.OK)
						return
					}
					for range 2 {
						r.pass(lease / 2)
						u.bits()
						v.bits()
					}
					r.want(a.name, a.do(r, v), wire.OK)
					if b := u.bits(); b != wire.SeqRecallableStateRevoked {
						t.Errorf("bits %x", b)
					}
					r.want("READ by the former holder", u.io("f", d.Stateid, Read), wire.ErrDelegRevoked)
					r.want("DELEGRETURN", u.giveBack("f", d.Stateid), wire.ErrDelegRevoked)
					r.want("FREE_STATEID", u.free(d.Stateid), wire.OK)
					if b := u.bits(); b != 0 {
						t.Errorf("bits %x", b)
					}
				})
			}
		}
	}
}

// A recall that the client may not have got is sent again once it has bound a connection.
func TestRecallAgain(t *testing.T) {
	r := newRig(t, Config{Delegations: true})
	u := r.user("o")
	d, _ := u.wish("x", "f", r_, 0)
	if n := r.Recall("f"); n != 1 || len(r.owedCalls()) != 1 {
		t.Fatal("not recalled")
	}
	r.BackFailed(u.session, u.peer.Conn, false)
	u.peer.Conn = newConn()
	r.want("BIND_CONN_TO_SESSION", r.BindConn(u.peer, &wire.BindConnToSession{Session: u.session, Dir: wire.BindForeOrBoth}), wire.OK)
	if owed := r.owedCalls(); len(owed) != 1 || owed[0].Stateid != d.Stateid {
		t.Fatalf("%+v", owed)
	}
	if !r.Delegated(d.Stateid) {
		t.Error("not held")
	}
	r.want("DELEGRETURN", u.giveBack("f", d.Stateid), wire.OK)
	if r.Delegated(d.Stateid) || len(r.Delegations()) != 0 {
		t.Error("held")
	}
}

// Opens that a delegation stood for are made known by it, against which it does not stand.
func TestOpenByDelegation(t *testing.T) {
	r := newRig(t, Config{Delegations: true})
	u, v := r.user("o"), r.user("p")
	d, _ := u.wish("x", "f", rw_, 0)
	rd, _ := u.wish("x", "g", r_, 0)
	_, st := v.openAs("x", "f", r_, 0)
	r.want("OPEN by another", st, wire.ErrDelay)
	by := func(s wire.Stateid, f File, access uint32) (wire.Stateid, wire.Status) {
		a := u.opening("y", access, 0)
		a.Claim, a.DelegStateid = wire.ClaimDelegCurFH, s
		st := u.open(a, f)
		return a.Stateid, st
	}
	s, st := by(d.Stateid, "f", rw_)
	r.want("OPEN by the delegation", st, wire.OK)
	_, st = by(d.Stateid, "g", rw_)
	r.want("of another file", st, wire.ErrBadStateid)
	_, st = by(s, "f", r_)
	r.want("by an open", st, wire.ErrBadStateid)
	_, st = by(rd.Stateid, "g", w_)
	r.want("for writing by a read delegation", st, wire.ErrOpenMode)
	r.want("WRITE", u.io("f", s, Write), wire.OK)
}

// Delegations can be reclaimed.
func TestReclaimDelegation(t *testing.T) {
	r := newRig(t, Config{Delegations: true})
	u := r.user("o")
	u.wish("x", "f", rw_, 0)
	r.Restart(true)
	u = r.arrive("o", 1)
	a := u.opening("x", rw_, 0)
	a.Access, a.Claim, a.DelegType = rw_, wire.ClaimPrevious, wire.DelegWrite
	r.want("reclaim", u.open(a, "f"), wire.OK)
	if a.Delegation.Type != wire.DelegWrite {
		t.Fatalf("%+v", a.Delegation)
	}
	r.want("RECLAIM_COMPLETE", u.reclaimComplete(), wire.OK)
	if d, ok := r.WriteDelegation(nil, "f"); !ok || d.Stateid != a.Delegation.Stateid || d.Client != u.id {
		t.Errorf("%+v", d)
	}
	c := u.begin()
	if _, ok := r.WriteDelegation(c, "f"); ok {
		t.Error("the holder would be asked about its own delegation")
	}
	c.End(nil)
}
