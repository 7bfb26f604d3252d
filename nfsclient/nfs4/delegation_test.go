package nfs4

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// With a delegation a file is opened, asked about and closed without a call.
func TestLocalOpens(t *testing.T) {
	r := newRig4(t)
	r.close("a", r.open("a", nfsclient.OpenRead))
	r.made("OPEN 4 CLOSE")
	st := r.open("a", nfsclient.OpenRead)
	if a, err := r.c.GetAttr(t.Context(), someone, "a"); err != nil || a.Size != 5 {
		t.Errorf("%+v, %v", a, err)
	}
	r.close("a", st)
	r.made("")
	// Whether another user may read the file, the server alone knows.
	other := nfsclient.Cred{UID: 2}
	o, err := r.c.OpenFile(t.Context(), other, "a", nfsclient.OpenRead)
	r.must(err)
	r.must(r.c.CloseFile(t.Context(), other, "a", o.State))
	r.made("OPEN 4 CLOSE")
	if n := r.v.count("delegation"); n != 1 {
		t.Errorf("%d delegations", n)
	}
}

// A recall is answered at once. Then the cache is told, the openings are made known to the server, and the delegation
// goes back.
func TestRecall(t *testing.T) {
	r := newRig4(t)
	r.held("a")
	one, two := r.open("a", nfsclient.OpenRead), r.open("a", nfsclient.OpenRead)
	sid := r.v.stateidOf("a", "delegation")
	if st := r.v.callback(t, &wire.CBRecall{Handle: "b", Stateid: sid}); st != wire.ErrBadStateid {
		t.Errorf("recall of another file: %d", st)
	}
	if st := r.v.callback(t, &wire.CBRecall{Handle: "a", Stateid: wire.Stateid{Other: [12]byte{9}}}); st != wire.ErrBadStateid {
		t.Errorf("recall of another delegation: %d", st)
	}
	if st := r.v.callback(t, &wire.CBRecall{Handle: "a", Stateid: sid}); st != wire.OK {
		t.Fatalf("recall: %d", st)
	}
	if h := <-r.told.recalled; h != "a" {
		t.Errorf("recalled %q", h)
	}
	r.await("DELEGRETURN", func() bool { return r.v.count("delegation") == 0 })
	r.made("OPEN 5 OPEN 5 DELEGRETURN")
	r.await("the end of the recall", func() bool { _, ok := r.c.knownAttr("a"); return !ok && len(files(r.c)) == 0 })
	r.close("a", one)
	r.close("a", two)
	r.made("CLOSE CLOSE")
}

func files(c *Client) map[nfsclient.Handle]*delegFile {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.delegs.files
}

// A recall that overtakes the answer to OPEN is answered, and the delegation given back at once.
func TestRecallOvertakesOpen(t *testing.T) {
	r := newRig4(t)
	r.v.answered = func(c *wire.Compound) {
		for _, o := range c.Ops {
			if p, ok := o.(*wire.Open); ok && p.Delegation.Type == wire.DelegRead {
				if st := r.v.callback(t, &wire.CBRecall{Handle: "a", Stateid: p.Delegation.Stateid}); st != wire.OK {
					t.Errorf("recall: %d", st)
				}
			}
		}
	}
	st := r.open("a", nfsclient.OpenRead)
	r.made("OPEN 4 DELEGRETURN")
	r.v.give = false
	r.close("a", st)
}

// A change of ours returns the delegation first. While one is under way, or the file is open for writing, none is taken.
func TestOwnChange(t *testing.T) {
	r := newRig4(t)
	r.held("a")
	st := r.open("a", nfsclient.OpenRead)
	mode := uint32(0o600)
	_, err := r.c.SetAttr(t.Context(), someone, "a", nil, nfsclient.SetAttr{Mode: &mode})
	r.must(err)
	r.made("OPEN 5 DELEGRETURN SETATTR")
	r.close("a", st)
	r.held("a")
	w := r.open("a", nfsclient.OpenWrite)
	r.made("DELEGRETURN OPEN 4")
	r.close("a", r.open("a", nfsclient.OpenRead))
	if n := r.v.count("delegation"); n != 0 {
		t.Error("a delegation was taken of a file that is open for writing")
	}
	r.close("a", w)
	r.v.calls()
	// An OPEN that a change begins behind.
	r.v.answered = func(c *wire.Compound) {
		if len(c.Ops) > 2 && c.Ops[2].Op() == wire.OpOpen {
			r.v.answered = nil
			_, err := r.c.SetAttr(context.Background(), someone, "a", nil, nfsclient.SetAttr{Mode: &mode})
			r.must(err)
		}
	}
	r.close("a", r.open("a", nfsclient.OpenRead))
	r.made("OPEN 4 SETATTR DELEGRETURN CLOSE")
}

// A name of ours that goes may be a name of a file whose delegation is held: what it says of links is asked for anew.
func TestNamesGo(t *testing.T) {
	r := newRig4(t)
	r.held("a")
	_, err := r.c.GetAttr(t.Context(), someone, "a")
	r.must(err)
	before := len(r.v.log)
	r.c.renames()
	for range 2 {
		_, err = r.c.GetAttr(t.Context(), someone, "a")
		r.must(err)
	}
	if n := len(r.v.log) - before; n != 2 { // PUTFH, GETATTR
		t.Errorf("%d operations", n)
	}
}

func TestPressure(t *testing.T) {
	r := newRig4(t)
	for _, h := range []nfsclient.Handle{"a", "b", "c"} {
		r.held(h)
	}
	r.close("a", r.open("a", nfsclient.OpenRead)) // b is the one used least recently
	if st := r.v.callback(t, &wire.CBRecallAny{Keep: 2, Types: wire.Bitmap{1 << wire.RecallAnyWriteDeleg}}); st != wire.OK {
		t.Error(st)
	}
	if st := r.v.callback(t, &wire.CBRecallAny{Keep: 2, Types: wire.Bitmap{1 << wire.RecallAnyReadDeleg}}); st != wire.OK {
		t.Error(st)
	}
	r.await("DELEGRETURN", func() bool { return r.v.count("delegation") == 2 })
	if r.v.stateidOf("b", "delegation") != (wire.Stateid{}) {
		t.Error("another than the one used least recently was returned")
	}
	for i := range maxDelegations + 1 {
		r.held(nfsclient.Handle(fmt.Sprintf("file %d", i)))
	}
	r.await("the bound", func() bool { return r.v.count("delegation") == maxDelegations })
}

// What the server has revoked is freed, the cache is told, and the file is opened anew by who next uses it.
func TestRevoked(t *testing.T) {
	r := newRig4(t)
	r.held("a")
	st := r.open("a", nfsclient.OpenRead)
	sid := r.v.stateidOf("a", "delegation")
	r.v.answered = func(c *wire.Compound) {
		for _, o := range c.Ops {
			if o.Op() == wire.OpFreeStateID && len(files(r.c)) > 0 {
				t.Error("the delegation was held until the server had forgotten that it was revoked")
			}
		}
	}
	r.v.mu.Lock()
	r.v.revoked[sid.Other] = true
	r.v.flags = wire.SeqRecallableStateRevoked
	r.v.mu.Unlock()
	_, err := r.c.GetAttr(t.Context(), someone, "b")
	r.must(err)
	if h := <-r.told.recalled; h != "a" {
		t.Errorf("recalled %q", h)
	}
	r.await("FREE_STATEID", func() bool { return r.v.count("delegation") == 0 })
	r.made("TEST_STATEID FREE_STATEID")
	r.must(r.c.SetLock(t.Context(), someone, "a", st, 1, nfsclient.Lock{Type: nfsclient.ReadLock, Last: 9}))
	r.made("OPEN 4 LOCK")
	r.close("a", st)
}

// After a restart a delegation is reclaimed with the opening of its file, and one of a file that is not open is given up.
func TestRestart(t *testing.T) {
	for _, reclaim := range []bool{true, false} {
		t.Run(fmt.Sprint(reclaim), func(t *testing.T) {
			r := newRig4(t)
			r.held("a")
			r.held("b")
			one, two := r.open("a", nfsclient.OpenRead), r.open("a", nfsclient.OpenRead)
			r.v.mu.Lock()
			r.v.boot, r.v.stateid, r.v.reclaim = 2, map[[12]byte]state{}, reclaim
			r.v.mu.Unlock()
			_, err := r.c.GetAttr(t.Context(), someone, "c")
			r.must(err)
			want := "CREATE_SESSION EXCHANGE_ID CREATE_SESSION OPEN 1 RECLAIM_COMPLETE PUTROOTFH"
			if !reclaim {
				want = "CREATE_SESSION EXCHANGE_ID CREATE_SESSION OPEN 1 OPEN 1 RECLAIM_COMPLETE PUTROOTFH"
			}
			r.made(want)
			r.close("a", r.open("a", nfsclient.OpenRead))
			want = ""
			if !reclaim {
				want = "OPEN 4 CLOSE"
			}
			r.made(want)
			r.close("b", r.open("b", nfsclient.OpenRead))
			r.made("OPEN 4 CLOSE")
			r.close("a", one)
			r.close("a", two)
		})
	}
}

// Locks need an opening that the server knows.
func TestLockOfLocalOpening(t *testing.T) {
	r := newRig4(t)
	r.held("a")
	st := r.open("a", nfsclient.OpenRead)
	r.must(r.c.SetLock(t.Context(), someone, "a", st, 1, nfsclient.Lock{Type: nfsclient.ReadLock, Last: 9}))
	r.must(r.c.SetLock(t.Context(), someone, "a", st, 1, nfsclient.Lock{Type: nfsclient.Unlocked, Last: 9}))
	r.made("OPEN 5 LOCK LOCKU")
	r.close("a", st)
}

// A lock that is waited for is asked for again when the server calls back.
func TestNotifyLock(t *testing.T) {
	r := newRig4(t)
	st := r.open("a", nfsclient.OpenRead|nfsclient.OpenWrite)
	asleep := make(chan struct{}, 1)
	r.c.sleep = func(ctx context.Context, _ time.Duration) error {
		asleep <- struct{}{}
		<-ctx.Done() // no poll ever
		return ctx.Err()
	}
	r.v.busy = true
	had := make(chan error, 1)
	go func() {
		had <- r.c.WaitLock(t.Context(), someone, "a", st, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9})
	}()
	<-asleep
	if s := r.v.callback(t, &wire.CBNotifyLock{Handle: "b"}); s != wire.OK {
		t.Error(s)
	}
	if s := r.v.callback(t, &wire.CBNotifyLock{Handle: "a"}); s != wire.OK { // too early
		t.Error(s)
	}
	<-asleep
	r.v.mu.Lock()
	r.v.busy = false
	r.v.mu.Unlock()
	if s := r.v.callback(t, &wire.CBNotifyLock{Handle: "a"}); s != wire.OK {
		t.Error(s)
	}
	r.must(<-had)
	r.close("a", st)
}

// The end of a copy that goes on by itself is heard from the server, and asked for if that is lost.
func TestOffload(t *testing.T) {
	r := newRig4(t)
	sid := wire.Stateid{Seqid: 1, Other: [12]byte{7}}
	end := &wire.CBOffload{Handle: "to", Stateid: sid, Copied: 99, Committed: nfsclient.FileSync, Verifier: nfsclient.Verifier{1}}
	if st := r.v.callback(t, end); st != wire.ErrBadStateid {
		t.Errorf("of a copy that nobody waits for: %d", st)
	}
	r.c.sleep = func(ctx context.Context, _ time.Duration) error {
		if st := r.v.callback(t, &wire.CBOffload{Handle: "to", Stateid: wire.Stateid{Other: [12]byte{8}}}); st != wire.ErrBadStateid {
			t.Errorf("of another copy: %d", st)
		}
		if st := r.v.callback(t, end); st != wire.OK {
			t.Errorf("CB_OFFLOAD: %d", st)
		}
		<-ctx.Done() // no poll ever
		return ctx.Err()
	}
	f := copyOf{c: r.c, cr: someone, to: "to"}
	await := func(op *wire.Copy) error {
		w := r.c.beginWait(&waiter{h: "to", copies: true})
		defer r.c.endWait(w)
		r.c.copying(w, op.Callback)
		return f.await(t.Context(), w, op)
	}
	op := &wire.Copy{Callback: sid}
	r.must(await(op))
	if op.Copied != 99 || op.Committed != nfsclient.FileSync || op.Verifier != end.Verifier {
		t.Errorf("%+v", op)
	}
	end = &wire.CBOffload{Handle: "to", Stateid: sid, Outcome: nfsclient.ErrNoSpace, Copied: 3}
	if st, _ := nfsclient.StatusOf(await(&wire.Copy{Callback: sid})); st != nfsclient.ErrNoSpace {
		t.Errorf("of a copy that has failed: %d", st)
	}
	if len(r.c.state.waiting) != 0 {
		t.Error("somebody still waits")
	}
}

// The end of a copy may be told before its COPY is answered, or while it is asked for. The server then knows it no more.
func TestOffloadOvertakes(t *testing.T) {
	for _, before := range []wire.Op{wire.OpCopy, wire.OpOffloadStatus} {
		t.Run(before.String(), func(t *testing.T) {
			r := newRig4(t)
			from, to := r.open("from", nfsclient.OpenRead|nfsclient.OpenWrite), r.open("to", nfsclient.OpenWrite)
			r.v.answered = func(c *wire.Compound) {
				last := c.Ops[c.Done-1]
				if len(c.Ops) > 4 && c.Ops[4].Op() == wire.OpCopy {
					last = c.Ops[4]
				}
				sid := r.v.stateidOf("to", "copy")
				if last.Op() != before || sid == (wire.Stateid{}) {
					return
				}
				if r.v.forget(sid); before == wire.OpOffloadStatus {
					c.Status = wire.ErrBadStateid
				}
				end := &wire.CBOffload{Handle: "to", Stateid: sid, Copied: 99, Committed: nfsclient.FileSync, Verifier: nfsclient.Verifier{1}}
				if st := r.v.callback(t, end); st != wire.OK {
					t.Errorf("CB_OFFLOAD: %d", st)
				}
			}
			r.v.calls()
			w, err := r.c.Copy(t.Context(), someone, "from", from, 1, "to", to, 1, 100)
			r.must(err)
			if w.N != 99 || w.Committed != nfsclient.FileSync || w.Verifier != (nfsclient.Verifier{1}) {
				t.Errorf("%+v", w)
			}
			want := "SAVEFH COPY SAVEFH COPY" // the first of which the server refuses to make while it is waited for
			if before == wire.OpOffloadStatus {
				want += " OFFLOAD_STATUS"
			}
			r.made(want)
			r.close("from", from)
			r.close("to", to)
		})
	}
}

// Without a back channel no delegation is asked for.
func TestNoBackChannel(t *testing.T) {
	r := newRig4(t)
	plain := &Client{cf: Config{}}
	if plain.delegated() || plain.ask(&openState{access: nfsclient.OpenRead}) {
		t.Error("a delegation would be asked for")
	}
	if st := r.v.callback(t, &wire.CBGetAttr{Handle: "a"}); st != nfsclient.ErrBadHandle {
		t.Errorf("CB_GETATTR: %d", st)
	}
	if st := r.v.callback(t, &wire.CBRecallSlot{Target: 3}); st != wire.OK || r.c.ses.Info().Slots != 4 {
		t.Errorf("CB_RECALL_SLOT: %d, %d slots", st, r.c.ses.Info().Slots)
	}
}

// A delegation that was reclaimed is not given up by who has asked for the session's epoch before that.
func TestReclaimedSinceAsked(t *testing.T) {
	r := newRig4(t)
	r.held("a")
	s := &r.c.state
	s.mu.Lock()
	d := s.delegs.files["a"].held
	was := s.use("a", d.epoch-1)
	is := s.use("a", d.epoch)
	s.mu.Unlock()
	if was != nil || is != d {
		t.Errorf("relied upon before: %v, after: %v", was != nil, is == d)
	}
}
