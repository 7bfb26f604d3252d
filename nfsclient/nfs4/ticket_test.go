package nfs4

import (
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// TestRecoveryWithoutTicket: the server restarts while a user has no ticket. What the others have open is reclaimed, and their
// calls go on; the user's WRITE waits for a ticket, and then opens the file anew.
func TestRecoveryWithoutTicket(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 2)
	alice, bob := nfsclient.Cred{UID: 1001}, nfsclient.Cred{UID: 1002}
	opened := map[uint32]nfsclient.OpenState{}
	for _, cr := range []nfsclient.Cred{alice, bob} {
		o, err := c.OpenFile(t.Context(), cr, "file", nfsclient.OpenWrite)
		if err != nil {
			t.Fatal(err)
		}
		opened[cr.UID] = o.State
	}
	claims := map[wire.ClaimType]int{}
	f.script(func(o wire.Operation) (wire.Status, bool) {
		switch o := o.(type) {
		case *wire.Open:
			claims[o.Claim]++
		case *wire.Write:
			o.Count, o.Committed = 1, nfsclient.FileSync
		}
		return wire.OK, false
	})
	write := func(cr nfsclient.Cred) error {
		_, err := c.Write(t.Context(), cr, "file", opened[cr.UID], 0, memtest.Vec(t, "x"), nfsclient.FileSync)
		return err
	}
	f.without(alice.UID)
	f.restart()
	if err := write(bob); err != nil {
		t.Errorf("who has a ticket: %v", err)
	}
	if err := write(alice); !errors.Is(err, transport.ErrAwaitCredential) {
		t.Errorf("who has none: %v", err)
	}
	if claims[wire.ClaimPrevious] != 1 || claims[wire.ClaimFH] != 0 {
		t.Errorf("claims %v", claims)
	}
	f.without(0)
	if err := write(alice); err != nil {
		t.Errorf("who has a ticket again: %v", err)
	}
	if claims[wire.ClaimPrevious] != 1 || claims[wire.ClaimFH] != 1 {
		t.Errorf("claims %v", claims)
	}
}

// TestGivenBackWithoutTicket: what the server keeps for a user is given back though he has no ticket any more: others wait for his locks.
func TestGivenBackWithoutTicket(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 2)
	alice := nfsclient.Cred{UID: 1001}
	o, err := c.OpenFile(t.Context(), alice, "file", nfsclient.OpenWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetLock(t.Context(), alice, "file", o.State, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9}); err != nil {
		t.Fatal(err)
	}
	f.without(alice.UID)
	if err := c.SetLock(t.Context(), alice, "file", o.State, 1, nfsclient.Lock{Type: nfsclient.Unlocked, Last: 9}); err != nil {
		t.Errorf("LOCKU: %v", err)
	}
	if err := c.CloseFile(t.Context(), alice, "file", o.State); err != nil {
		t.Errorf("CLOSE: %v", err)
	}
	d := &delegation{h: "file", cr: alice, sid: wire.Stateid{Seqid: 1, Other: [12]byte{2}}, gone: make(chan struct{})}
	c.giveUp(t.Context(), d)
	for _, op := range []wire.Op{wire.OpLockU, wire.OpClose, wire.OpDelegReturn} {
		if n := f.count(op); n != 1 {
			t.Errorf("the server has heard %d of %v", n, op)
		}
	}
}
