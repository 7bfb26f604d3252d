package nfstest

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// withBack4 is onOwn4 where there is a back channel.
func withBack4(t *testing.T, cfg nfsd.Config, f func(o *own4)) {
	onOwn4(t, cfg, func(o *own4) {
		if !o.back {
			o.Skip("no back channel")
		}
		f(o)
	})
}

// TestOwn4Recall: what the server recalls comes back, also if the answer to the callback is lost with
// the connection.
func TestOwn4Recall(t *testing.T) {
	for line, op := range map[string]wire.CBOp{"recall": wire.OpCBRecall, "recall-any 0": wire.OpCBRecallAny} {
		t.Run(line, func(t *testing.T) {
			withBack4(t, nfsd.Config{}, func(o *own4) {
				u := o.user(o.T)
				h := u.made("recalled", "contents")
				for range 3 {
					if !u.held(h) {
						o.Fatal("no delegation")
					}
					st := u.open(h, nfsclient.OpenRead) // by the delegation alone
					called := o.called[op].Load()
					if err := o.script.Do(line); err != nil {
						o.Fatal(err)
					}
					o.eventually("the delegation was returned", func() bool { return o.s.State().Counts().Delegations == 0 })
					if o.called[op].Load() == called {
						o.Errorf("no %v", op)
					}
					if n := o.s.State().Counts(); n.Opens != 1 {
						o.Errorf("opened at the server: %+v", n)
					}
					if got := u.read(h, st, 100); got != "contents" {
						o.Errorf("%q", got)
					}
					u.close(h, st)
				}
			})
		})
	}
}

// TestOwn4RecallLost: the connection is lost while a recall is under way. The client binds another, and
// is recalled once more.
func TestOwn4RecallLost(t *testing.T) {
	withBack4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		h := u.made("recalled", "contents")
		if !u.held(h) {
			o.Fatal("no delegation")
		}
		// The recall finds no connection, or one that is about to end.
		cut := o.s.Cut()
		if o.script.Recall() != 1 {
			o.Error("nothing to recall")
		}
		<-cut
		// Any call has the client connect, and bind.
		if _, err := u.c.GetAttr(u.Context(), nfsclient.Cred{}, u.root); err != nil {
			o.Error(err)
		}
		o.eventually("the delegation was returned", func() bool { return o.s.State().Counts().Delegations == 0 })
	})
}

// TestOwn4NotReturned: a client that does not return a delegation loses it after a lease, and goes on
// without; who waited for it does, too.
func TestOwn4NotReturned(t *testing.T) {
	withBack4(t, nfsd.Config{Lease: 3 * time.Second}, func(o *own4) {
		u, other := o.user(o.T), o.user(o.T)
		h := u.made("kept", "contents")
		if !u.held(h) {
			o.Fatal("no delegation")
		}
		o.script.Fail(wire.OpDelegReturn, wire.ErrDelay, 1, 1<<30)
		o.limited("a delegation that is not returned", func() {
			st := other.open(h, nfsclient.OpenWrite)
			other.write(h, st, 0, "CONTENTS")
			other.close(h, st)
		})
		o.script.Clear()
		st := u.open(h, nfsclient.OpenRead)
		if got := u.read(h, st, 100); got != "CONTENTS" {
			o.Errorf("%q", got)
		}
		u.close(h, st)
		o.eventually("nothing revoked is left", func() bool { return o.s.State().Counts().Revoked == 0 })
	})
}

// TestOwn4LockTold: who waits for a lock is told when it is free, and does not wait for the next time it
// would have asked.
func TestOwn4LockTold(t *testing.T) {
	withBack4(t, nfsd.Config{}, func(o *own4) {
		a, b := o.user(o.T), o.user(o.T)
		h, st := a.create("locked")
		bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
		ctx, cancel := context.WithTimeout(o.Context(), time.Minute)
		defer cancel()
		for range 3 {
			a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, 9))
			got := make(chan error, 1)
			go func() {
				got <- b.c.WaitLock(ctx, nfsclient.Cred{}, h, bst, 1, nfsclient.Lock{Type: nfsclient.WriteLock, First: 0, Last: 9})
			}()
			o.eventually("b waits", func() bool { return o.s.State().Counts().Waiting == 1 })
			told := o.called[wire.OpCBNotifyLock].Load()
			a.must(a.set(ctx, h, st, 1, nfsclient.Unlocked, 0, 9))
			if err := <-got; err != nil {
				o.Fatal(err)
			}
			if o.called[wire.OpCBNotifyLock].Load() == told {
				o.Error("b was not told")
			}
			b.must(b.set(ctx, h, bst, 1, nfsclient.Unlocked, 0, 9))
		}
		a.close(h, st)
		b.close(h, bst)
	})
}

// TestOwn4SlotsTold: the client hears by CB_RECALL_SLOT that it has fewer slots.
func TestOwn4SlotsTold(t *testing.T) {
	withBack4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		o.script.Slots(1)
		o.eventually("CB_RECALL_SLOT", func() bool { return o.called[wire.OpCBRecallSlot].Load() == 1 })
		h := u.made("slots", "contents")
		if a := u.attr(h); a.Size != 8 {
			o.Errorf("%+v", a)
		}
	})
}
