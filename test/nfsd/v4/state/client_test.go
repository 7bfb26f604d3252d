package state

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// TestExchangeID walks the cases of section 18.35.4.
func TestExchangeID(t *testing.T) {
	const upd = wire.ExchangeUpdConfirmedRecA
	for _, c := range []struct {
		name string
		// What there is already: nothing, a record, confirmed or not; with an open.
		record, confirmed, open bool
		// What is sent: another verifier than 1, another principal.
		verifier  byte
		principal string
		flags     uint32
		want      wire.Status
		// same: the client id is that of the record; confirmedR: as the flag says.
		same, confirmedR bool
	}{
		{name: "1 new owner", verifier: 1, principal: "sys:0"},
		{name: "2 again", record: true, confirmed: true, verifier: 1, principal: "sys:0", same: true, confirmedR: true},
		{name: "3 collision without state", record: true, confirmed: true, verifier: 1, principal: "sys:9"},
		{name: "3 collision with state", record: true, confirmed: true, open: true, verifier: 1, principal: "sys:9", want: wire.ErrClientIDInUse},
		{name: "4 unconfirmed is replaced", record: true, verifier: 1, principal: "sys:0"},
		{name: "4 unconfirmed of another", record: true, verifier: 1, principal: "sys:9"},
		{name: "5 restarted", record: true, confirmed: true, open: true, verifier: 2, principal: "sys:0"},
		{name: "6 update", record: true, confirmed: true, verifier: 1, principal: "sys:0", flags: upd, same: true, confirmedR: true},
		{name: "7 update of nothing", verifier: 1, principal: "sys:0", flags: upd, want: nfsclient.ErrNoEnt},
		{name: "7 update of unconfirmed", record: true, verifier: 1, principal: "sys:0", flags: upd, want: nfsclient.ErrNoEnt},
		{name: "8 update of another instance", record: true, confirmed: true, verifier: 2, principal: "sys:0", flags: upd, want: wire.ErrNotSame},
		{name: "9 update by another", record: true, confirmed: true, verifier: 1, principal: "sys:9", flags: upd, want: nfsclient.ErrPerm},
		{name: "flag of the server", verifier: 1, principal: "sys:0", flags: wire.ExchangeConfirmedR, want: nfsclient.ErrInval},
		{name: "unknown flag", verifier: 1, principal: "sys:0", flags: 0x8, want: nfsclient.ErrInval},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			u := &user{rig: r, owner: "o", peer: Peer{Principal: "sys:0"}}
			var old wire.ClientID
			switch {
			case c.confirmed:
				u = r.user("o")
				old = u.id
				if c.open {
					u.mustOpen("a", "f", r_, 0)
				}
			case c.record:
				ex := u.exchange(1, 0)
				r.want("EXCHANGE_ID", r.ExchangeID(u.peer, nil, ex), wire.OK)
				old = ex.ClientID
			}
			ex := u.exchange(c.verifier, c.flags)
			p := u.peer
			p.Principal = c.principal
			r.want("EXCHANGE_ID", r.ExchangeID(p, nil, ex), c.want)
			if c.want != wire.OK {
				if c.confirmed && u.bits() != 0 {
					t.Error("the record has suffered")
				}
				return
			}
			if (ex.ClientID == old) != c.same {
				t.Errorf("client id %x, was %x", ex.ClientID, old)
			}
			if got := ex.ResFlags&wire.ExchangeConfirmedR != 0; got != c.confirmedR {
				t.Errorf("confirmed: %v", got)
			}
			if ex.ResFlags&wire.ExchangeUseNonPNFS == 0 {
				t.Error("no role")
			}
		})
	}
}

func TestMachCredIsRefused(t *testing.T) {
	r := newRig(t, Config{})
	ex := &wire.ExchangeID{Owner: []byte("o"), Protect: wire.Protect{How: wire.ProtectMachCred}}
	r.want("EXCHANGE_ID", r.ExchangeID(Peer{Principal: "sys:0"}, nil, ex), nfsclient.ErrInval)
}

// A client that has restarted loses what its former instance had only when it confirms.
func TestRestartedClient(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	s := u.mustOpen("a", "f", r_, 0)
	ex := u.exchange(2, 0)
	r.want("EXCHANGE_ID", r.ExchangeID(u.peer, nil, ex), wire.OK)
	r.want("READ by the former", u.io("f", s, Read), wire.OK)
	cs := u.creation(ex.ClientID, ex.SequenceID)
	r.want("CREATE_SESSION", r.CreateSession(u.peer, nil, cs), wire.OK)
	_, st := r.Sequence(u.peer, u.sequence(0, u.seq+1), Compound{Ops: 1})
	r.want("SEQUENCE of the former", st, wire.ErrBadSession)
	if r.Held("f") || len(r.released) != 1 || r.released[0] != "f" {
		t.Errorf("still held; released %q", r.released)
	}
	if n := r.Counts(); n.Clients != 1 || n.Sessions != 1 {
		t.Errorf("%+v", n)
	}
}

func TestCreateSession(t *testing.T) {
	r := newRig(t, Config{})
	u := &user{rig: r, owner: "o", peer: Peer{Principal: "sys:0", Conn: newConn()}}
	ex := u.exchange(1, 0)
	r.want("EXCHANGE_ID", r.ExchangeID(u.peer, nil, ex), wire.OK)
	make := func(seq uint32, change func(*wire.CreateSession)) (*wire.CreateSession, wire.Status) {
		cs := u.creation(ex.ClientID, seq)
		if change != nil {
			change(cs)
		}
		return cs, r.CreateSession(u.peer, nil, cs)
	}
	seq := ex.SequenceID
	_, st := make(seq-1, nil)
	r.want("replay of none", st, wire.ErrSeqMisordered)
	_, st = make(seq+1, nil)
	r.want("two ahead", st, wire.ErrSeqMisordered)
	_, st = make(seq, func(a *wire.CreateSession) { a.ClientID++ })
	r.want("unknown client", st, wire.ErrStaleClientID)

	first, st := make(seq, nil)
	r.want("first", st, wire.OK)
	if first.ResFlags != wire.SessionConnBackChan || first.ResSequenceID != seq || first.ResFore.MaxRequests != 8 {
		t.Errorf("%+v", first)
	}
	again, st := make(seq, nil)
	r.want("replay", st, wire.OK)
	if again.Session != first.Session || r.Counts().Sessions != 1 {
		t.Error("a replay has made another session")
	}
	for _, c := range []struct {
		name   string
		change func(*wire.CreateSession)
		want   wire.Status
	}{
		{"unknown flag", func(a *wire.CreateSession) { a.Flags |= 8 }, nfsclient.ErrInval},
		{"no slots", func(a *wire.CreateSession) { a.Fore.MaxRequests = 0 }, nfsclient.ErrInval},
		{"small requests", func(a *wire.CreateSession) { a.Fore.MaxRequest = 100 }, nfsclient.ErrTooSmall},
		{"small replies", func(a *wire.CreateSession) { a.Fore.MaxResponse = 100 }, nfsclient.ErrTooSmall},
		{"small callbacks", func(a *wire.CreateSession) { a.Back.MaxRequest = 100 }, nfsclient.ErrTooSmall},
		{"one operation back", func(a *wire.CreateSession) { a.Back.MaxOps = 1 }, nfsclient.ErrTooSmall},
		{"GSS callbacks alone", func(a *wire.CreateSession) { a.SecParms = []wire.SecParms{{Flavor: wire.RPCSecGSS}} }, wire.ErrEncrAlgUnsupp},
		{"persistent, RDMA", func(a *wire.CreateSession) { a.Flags |= wire.SessionPersist | wire.SessionConnRDMA }, wire.OK},
		{"no back channel", func(a *wire.CreateSession) { a.Flags = 0 }, wire.OK},
	} {
		seq++
		for range 2 { // a failure is replayed as well
			cs, st := make(seq, c.change)
			r.want(c.name, st, c.want)
			if st == wire.OK && cs.ResFlags != cs.Flags&wire.SessionConnBackChan {
				t.Errorf("%s: flags %x", c.name, cs.ResFlags)
			}
		}
	}
	u.peer.Principal = "sys:9"
	_, st = make(seq+1, nil)
	r.want("another principal", st, wire.ErrClientIDInUse)
}

// The server takes less than it is offered, and never more.
func TestChannelLimits(t *testing.T) {
	r := newRig(t, Config{Slots: 4, MaxMessage: 8192, MaxCached: 2048, MaxOps: 10})
	u := &user{rig: r, owner: "o", peer: Peer{Principal: "sys:0"}}
	ex := u.exchange(1, 0)
	r.want("EXCHANGE_ID", r.ExchangeID(u.peer, nil, ex), wire.OK)
	cs := u.creation(ex.ClientID, ex.SequenceID)
	cs.Fore.HeaderPad, cs.Fore.MaxResponseCached = 100, 4000
	r.want("CREATE_SESSION", r.CreateSession(u.peer, nil, cs), wire.OK)
	want := wire.Channel{MaxRequest: 8192, MaxResponse: 8192, MaxResponseCached: 2048, MaxOps: 10, MaxRequests: 4}
	if cs.ResFore != want {
		t.Errorf("%+v", cs.ResFore)
	}
	if cs.ResFlags != 0 {
		t.Error("a back channel over a connection that cannot have one")
	}
}

func TestDestroy(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	kill := func(c *Call, last bool) wire.Status {
		return r.DestroySession(u.peer, c, last, &wire.DestroySession{Session: u.session})
	}
	destroy := func() wire.Status { return r.DestroyClientID(u.peer, nil, &wire.DestroyClientID{ClientID: u.id}) }
	s := u.mustOpen("a", "f", r_, 0)
	r.want("DESTROY_CLIENTID with session and open", destroy(), wire.ErrClientIDBusy)
	c := u.begin()
	r.want("DESTROY_SESSION in use", kill(nil, true), wire.ErrDelay)
	r.want("DESTROY_SESSION from within, not last", kill(c, false), wire.ErrNotOnlyOp)
	r.want("CLOSE", r.Close(c, "f", &wire.Close{Stateid: s}), wire.OK)
	r.want("DESTROY_SESSION from within", kill(c, true), wire.OK)
	c.End(nil)
	r.want("DESTROY_SESSION again", kill(nil, true), wire.ErrBadSession)
	r.want("DESTROY_CLIENTID", destroy(), wire.OK)
	r.want("DESTROY_CLIENTID again", destroy(), wire.ErrStaleClientID)
	if n := r.Counts(); n != (Counts{}) {
		t.Errorf("%+v is left", n)
	}
}

func TestBindConn(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	bind := func(p Peer, dir uint32) (uint32, wire.Status) {
		a := &wire.BindConnToSession{Session: u.session, Dir: dir}
		st := r.BindConn(p, a)
		return a.ResDir, st
	}
	can, cannot := u.peer, u.peer
	cannot.Conn = nil
	for _, c := range []struct {
		name      string
		p         Peer
		dir, want uint32
		st        wire.Status
	}{
		{"fore", Peer{Conn: newConn()}, wire.BindFore, wire.BoundFore, wire.OK},
		{"back", Peer{Conn: newConn()}, wire.BindBack, wire.BoundBack, wire.OK},
		{"fore or both", Peer{Conn: newConn()}, wire.BindForeOrBoth, wire.BoundBoth, wire.OK},
		{"back or both", Peer{Conn: newConn()}, wire.BindBackOrBoth, wire.BoundBoth, wire.OK},
		{"again", can, wire.BindForeOrBoth, wire.BoundBoth, wire.OK},
		{"less than it has", can, wire.BindBack, 0, nfsclient.ErrInval},
		{"fore or both, cannot", cannot, wire.BindForeOrBoth, wire.BoundFore, wire.OK},
		{"back, cannot", cannot, wire.BindBack, 0, nfsclient.ErrInval},
		{"no direction", can, 5, 0, wire.ErrBadXDR},
	} {
		dir, st := bind(c.p, c.dir)
		r.want(c.name, st, c.st)
		if dir != c.want {
			t.Errorf("%s: direction %d", c.name, dir)
		}
	}
	a := &wire.BindConnToSession{Dir: wire.BindFore}
	r.want("no session", r.BindConn(can, a), wire.ErrBadSession)
}

// The bits follow the back channel's connections.
func TestBackChannelBits(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	if b := u.bits(); b != 0 {
		t.Fatalf("bits %x", b)
	}
	if ch, ok := r.BackChannel(u.id, u.session); !ok || ch.Conn != u.peer.Conn || ch.Sec.UID != 7 || ch.Program != 0x40000000 || ch.Minor != 2 {
		t.Fatalf("%+v", ch)
	}
	close(u.peer.Conn.(*conn).done)
	u.peer.Conn = newConn()
	const down = wire.SeqCBPathDown | wire.SeqCBPathDownSession
	if b := u.bits(); b != down {
		t.Errorf("bits %x after the connection ended", b)
	}
	if _, ok := r.BackChannel(u.id, wire.SessionID{}); ok {
		t.Error("there is a back channel")
	}
	r.want("BIND_CONN_TO_SESSION", r.BindConn(u.peer, &wire.BindConnToSession{Session: u.session, Dir: wire.BindForeOrBoth}), wire.OK)
	if b := u.bits(); b != 0 {
		t.Errorf("bits %x after it was bound", b)
	}
	r.BackFailed(u.session, u.peer.Conn, false)
	if b := u.bits(); b != down {
		t.Errorf("bits %x after a callback failed", b)
	}
	r.BackFailed(u.session, u.peer.Conn, true)
	if b := u.bits(); b != down|wire.SeqBackchannelFault {
		t.Errorf("bits %x after a fault", b)
	}
}

// A lease ends for who is silent, not for who has a call under way.
func TestLease(t *testing.T) {
	r := newRig(t, Config{})
	u, v := r.user("o"), r.user("p")
	u.mustOpen("a", "f", rw_, r_|w_)
	c := v.begin()
	r.pass(lease - 1)
	if b := u.bits(); b != 0 {
		t.Fatal(b)
	}
	r.pass(lease - 1)
	c.End([]byte("long"))
	if n := r.Counts(); n.Clients != 2 {
		t.Fatalf("%+v", n)
	}
	r.pass(1)
	_, st := r.Sequence(u.peer, u.sequence(0, u.seq+1), Compound{Ops: 1})
	r.want("SEQUENCE after the lease", st, wire.ErrBadSession)
	r.want("CREATE_SESSION after the lease", r.CreateSession(u.peer, nil, u.creation(u.id, 2)), wire.ErrStaleClientID)
	v.mustOpen("a", "f", rw_, 0)
}

// A client record that was never confirmed lives for a lease.
func TestUnconfirmedExpires(t *testing.T) {
	r := newRig(t, Config{})
	u := &user{rig: r, owner: "o", peer: Peer{Principal: "sys:0"}}
	ex := u.exchange(1, 0)
	r.want("EXCHANGE_ID", r.ExchangeID(u.peer, nil, ex), wire.OK)
	r.pass(lease)
	r.want("CREATE_SESSION", r.CreateSession(u.peer, nil, u.creation(ex.ClientID, ex.SequenceID)), wire.ErrStaleClientID)
}
