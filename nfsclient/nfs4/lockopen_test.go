package nfs4

import (
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// lockStates is how many owners are remembered.
func (r *rig4) lockStates() int {
	r.c.state.mu.Lock()
	defer r.c.state.mu.Unlock()
	return len(r.c.state.locks)
}

// An owner that gets no lock is not remembered: each process that tries is another one.
func TestLockDeniedForgotten(t *testing.T) {
	r := newRig4(t)
	st := r.open("a", nfsclient.OpenWrite)
	r.v.mu.Lock()
	r.v.busy = true
	r.v.mu.Unlock()
	for owner := range nfsclient.LockOwner(5) {
		if err := r.c.SetLock(t.Context(), someone, "a", st, owner, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9}); !errors.Is(err, nfsclient.ErrLocked) {
			t.Errorf("a lock that another has: %v", err)
		}
	}
	if n := r.lockStates(); n != 0 {
		t.Errorf("%d owners without a lock are remembered", n)
	}
	r.close("a", st)
}

// Nor is one whose locks the server has lost, once it was told.
func TestLockLostForgotten(t *testing.T) {
	r := newRig4(t)
	st := r.open("a", nfsclient.OpenWrite)
	r.must(r.c.SetLock(t.Context(), someone, "a", st, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9}))
	r.v.mu.Lock()
	r.v.boot, r.v.stateid, r.v.lockless = 2, map[[12]byte]state{}, true
	r.v.mu.Unlock()
	_, err := r.c.GetAttr(t.Context(), someone, "b")
	r.must(err)
	<-r.told.lost
	r.await("the owner to be forgotten", func() bool { return r.lockStates() == 0 })
	r.close("a", st)
}

// A stateid of which no lock is left is freed when its owner goes on through another opening.
func TestLockMoves(t *testing.T) {
	r := newRig4(t)
	one, two := r.open("a", nfsclient.OpenRead|nfsclient.OpenWrite), r.open("a", nfsclient.OpenWrite)
	r.v.calls()
	for _, st := range []nfsclient.OpenState{one, two} {
		r.must(r.c.SetLock(t.Context(), someone, "a", st, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9}))
		r.must(r.c.SetLock(t.Context(), someone, "a", st, 1, nfsclient.Lock{Type: nfsclient.Unlocked, Last: 9}))
	}
	r.await("FREE_STATEID", func() bool { r.v.mu.Lock(); defer r.v.mu.Unlock(); return r.v.freed == 1 })
	r.close("a", one)
	r.close("a", two)
	if n := r.lockStates(); n != 0 {
		t.Errorf("%d owners are remembered of a file that is closed", n)
	}
	if r.v.stateidOf("a", "lock") != (wire.Stateid{}) {
		t.Error("a lock is left")
	}
}

// What could not be unlocked ends with the CLOSE: its owner is remembered no more.
func TestLockEndsWithClose(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 2)
	o, err := c.OpenFile(t.Context(), someone, "file", nfsclient.OpenWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetLock(t.Context(), someone, "file", o.State, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9}); err != nil {
		t.Fatal(err)
	}
	f.script(func(o wire.Operation) (wire.Status, bool) { return nfsclient.ErrStale, o.Op() == wire.OpLockU })
	if err := c.CloseFile(t.Context(), someone, "file", o.State); err != nil {
		t.Error(err)
	}
	if n := c.Seen().Locks; n != 0 || len(c.state.locks) != 0 {
		t.Errorf("%d locks of %d owners are remembered", n, len(c.state.locks))
	}
}

// An opening may be widened while another owner locks through it. Its stateid is then a newer one, and nothing is lost.
func TestLockWhileWidened(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 2)
	o, err := c.OpenFile(t.Context(), someone, "file", nfsclient.OpenWrite)
	if err != nil {
		t.Fatal(err)
	}
	f.script(func(o wire.Operation) (wire.Status, bool) {
		if l, ok := o.(*wire.Lock); ok && l.New && l.OpenStateid.Seqid != 0 {
			return wire.ErrOldStateid, true
		}
		return wire.OK, false
	})
	if err := c.SetLock(t.Context(), someone, "file", o.State, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9}); err != nil {
		t.Error(err)
	}
	if n := f.count(wire.OpOpen); n != 1 {
		t.Errorf("opened %d times", n)
	}
}
