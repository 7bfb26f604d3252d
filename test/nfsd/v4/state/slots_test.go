package state

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

func TestSequence(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o") // has used sequence id 1 of slot 0
	for _, c := range []struct {
		name   string
		change func(*wire.Sequence, *Compound)
		want   wire.Status
	}{
		{"no session", func(a *wire.Sequence, _ *Compound) { a.Session[0]++ }, wire.ErrBadSession},
		{"no slot", func(a *wire.Sequence, _ *Compound) { a.Slot = 8 }, wire.ErrBadSlot},
		{"highest slot", func(a *wire.Sequence, _ *Compound) { a.HighestSlot = 8 }, wire.ErrBadHighSlot},
		{"operations", func(_ *wire.Sequence, in *Compound) { in.Ops = 17 }, wire.ErrTooManyOps},
		{"size", func(_ *wire.Sequence, in *Compound) { in.Size = 1<<20 + 1 }, wire.ErrReqTooBig},
		{"two ahead", func(a *wire.Sequence, _ *Compound) { a.SequenceID = 3 }, wire.ErrSeqMisordered},
		{"behind", func(a *wire.Sequence, _ *Compound) { a.SequenceID = 0 }, wire.ErrSeqMisordered},
		{"unused slot, 0", func(a *wire.Sequence, _ *Compound) { a.Slot, a.SequenceID = 1, 0 }, wire.ErrSeqMisordered},
		{"unused slot, 2", func(a *wire.Sequence, _ *Compound) { a.Slot, a.SequenceID = 1, 2 }, wire.ErrSeqMisordered},
	} {
		a, in := u.sequence(0, 2), Compound{Ops: 1}
		c.change(a, &in)
		_, st := r.Sequence(u.peer, a, in)
		r.want(c.name, st, c.want)
	}
	// None of these has changed the slot.
	a := u.sequence(0, 2)
	c, st := r.Sequence(u.peer, a, Compound{Ops: 1})
	r.want("next", st, wire.OK)
	if a.ResSequenceID != 2 || a.ResHighestSlot != 7 || a.TargetHighestSlot != 7 || a.ResSession != u.session {
		t.Errorf("%+v", a)
	}
	c.End(nil)
}

func TestSequenceWraps(t *testing.T) {
	r := newRig(t, Config{})
	u := r.user("o")
	r.Machine.sessions[u.session].slots.all[0].seq = 1<<32 - 1
	u.seq = 1<<32 - 1
	u.want("wrapped", u.do(func(*Call) wire.Status { return wire.OK }), wire.OK)
	if u.seq != 0 {
		t.Fatal(u.seq)
	}
}

func TestReplay(t *testing.T) {
	for _, c := range []struct {
		name     string
		cache    bool
		in       Compound
		reply    string
		again    func(*wire.Sequence, *Compound, *Peer)
		want     wire.Status
		uncached bool
	}{
		{name: "kept", cache: true, in: Compound{Ops: 3, Digest: 1}, reply: "it"},
		{name: "not kept", in: Compound{Ops: 3}, reply: "it", uncached: true},
		{name: "cannot be kept", cache: true, in: Compound{Ops: 3}, uncached: true},
		{name: "SEQUENCE alone", in: Compound{Ops: 1}, reply: "it"},
		{name: "fewer operations", cache: true, in: Compound{Ops: 3}, reply: "it", want: wire.ErrSeqFalseRetry,
			again: func(_ *wire.Sequence, in *Compound, _ *Peer) { in.Ops = 2 }},
		{name: "not to be kept", cache: true, in: Compound{Ops: 3}, reply: "it", want: wire.ErrSeqFalseRetry,
			again: func(a *wire.Sequence, _ *Compound, _ *Peer) { a.CacheThis = false }},
		{name: "another user", cache: true, in: Compound{Ops: 3}, reply: "it", want: wire.ErrSeqFalseRetry,
			again: func(_ *wire.Sequence, _ *Compound, p *Peer) { p.Principal = "sys:9" }},
		{name: "another digest", cache: true, in: Compound{Ops: 3, Digest: 1}, reply: "it", want: wire.ErrSeqFalseRetry,
			again: func(_ *wire.Sequence, in *Compound, _ *Peer) { in.Digest = 2 }},
		{name: "over another connection", cache: true, in: Compound{Ops: 3, Digest: 1}, reply: "it",
			again: func(_ *wire.Sequence, _ *Compound, p *Peer) { p.Conn = newConn() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			u := r.user("o")
			send := func(p Peer, in Compound, change func(*wire.Sequence, *Compound, *Peer)) (*Call, wire.Status) {
				a := u.sequence(1, 1)
				a.CacheThis = c.cache
				if change != nil {
					change(a, &in, &p)
				}
				return r.Sequence(p, a, in)
			}
			call, st := send(u.peer, c.in, nil)
			r.want("first", st, wire.OK)
			_, st = send(u.peer, c.in, nil)
			r.want("while it is carried out", st, wire.ErrDelay)
			_, st = r.Sequence(u.peer, u.sequence(1, 2), c.in)
			r.want("the next while it is carried out", st, wire.ErrSeqMisordered)
			if c.reply != "" {
				call.End([]byte(c.reply))
			} else {
				call.End(nil)
			}
			for range 2 {
				call, st = send(u.peer, c.in, c.again)
				r.want("again", st, c.want)
				if st != wire.OK {
					continue
				}
				if call.Uncached != c.uncached || !c.uncached && string(call.Replay) != c.reply {
					t.Fatalf("uncached %v, reply %q", call.Uncached, call.Replay)
				}
			}
			call, st = r.Sequence(u.peer, u.sequence(1, 2), c.in)
			r.want("next", st, wire.OK)
			call.End(nil)
		})
	}
}

func TestEndTwice(t *testing.T) {
	r := newRig(t, Config{})
	c := r.user("o").begin()
	c.End(nil)
	defer func() {
		if recover() == nil {
			t.Error("a call was ended twice")
		}
	}()
	c.End(nil)
}

// Slots are taken from a client only when it has said, knowing of it, that it uses none of
// them (section 2.10.6.1).
func TestShrink(t *testing.T) {
	r := newRig(t, Config{Slots: 16})
	u := r.user("o")
	send := func(slot, seq, highest uint32) (*wire.Sequence, *Call, wire.Status) {
		a := u.sequence(slot, seq)
		a.HighestSlot = highest
		c, st := r.Sequence(u.peer, a, Compound{Ops: 1})
		return a, c, st
	}
	ok := func(slot, seq, highest, wantHighest, wantTarget uint32) {
		t.Helper()
		a, c, st := send(slot, seq, highest)
		r.want("SEQUENCE", st, wire.OK)
		c.End([]byte("it"))
		if a.ResHighestSlot != wantHighest || a.TargetHighestSlot != wantTarget {
			t.Fatalf("highest slot %d, target %d; want %d and %d", a.ResHighestSlot, a.TargetHighestSlot, wantHighest, wantTarget)
		}
	}
	ok(5, 1, 5, 7, 7)
	r.SetSlots(2)
	if owed := r.owedCalls(); len(owed) != 1 || owed[0].Kind != CallRecallSlot || owed[0].Slot != 1 || owed[0].Session != u.session {
		t.Fatalf("%+v", owed)
	}
	_, held, st := send(6, 1, 6)
	r.want("a slot above the target, before the client knows", st, wire.OK)
	ok(1, 1, 6, 7, 1) // learns of the target
	ok(1, 2, 6, 7, 1) // still uses slot 6
	ok(0, 2, 1, 7, 1) // does not, but this slot was not told yet
	ok(0, 3, 1, 6, 1) // knows, and says it uses two; but slot 6 is in fact in use
	held.End(nil)
	ok(0, 4, 0, 1, 1)
	_, _, st = send(5, 2, 5)
	r.want("a slot that was given back", st, wire.ErrBadSlot)
	_, _, st = send(0, 5, 5)
	r.want("a highest slot that was given back", st, wire.ErrBadHighSlot)

	r.SetSlots(100) // no more than the client asked for
	ok(0, 5, 0, 7, 7)
	ok(5, 2, 5, 7, 7) // goes on where the slot stood
	ok(6, 1, 6, 7, 7) // or begins anew
	ok(6, 2, 6, 7, 7)
	_, _, st = send(5, 1, 5)
	r.want("begins anew in a slot that was not given back since", st, wire.ErrSeqMisordered)
}
