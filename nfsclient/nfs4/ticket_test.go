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
