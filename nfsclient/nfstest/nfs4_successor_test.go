package nfstest

import (
	"context"
	"crypto/rand"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// successor4: what a client held that was killed is free as soon as another has come under its owner's name, and not
// only after a lease.
func successor4(t *testing.T, dial func() transport.Caller, minor uint32, export string, lease time.Duration) {
	owner := "nfstest " + rand.Text()
	cr, ctx := nfsclient.Cred{}, t.Context()
	nfs := dial()
	killed := mountAs4(t, nfs, nil, minor, export, owner)
	root, _ := killed.Root()
	m, err := killed.Create(ctx, cr, root, rand.Text(), nfsclient.SetAttr{Mode: ptr(uint32(0o644))}, false, nfsclient.OpenRead|nfsclient.OpenWrite)
	if err == nil {
		err = killed.SetLock(ctx, cr, m.Handle, m.State, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: toEnd})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := nfs.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = killed.Close(ctx) }() // it has no connection
	began := time.Now()
	heir := mountAs4(t, dial(), nil, minor, export, owner)
	defer func() {
		if err := heir.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	o, err := heir.OpenFile(ctx, cr, m.Handle, nfsclient.OpenRead|nfsclient.OpenWrite)
	if err == nil {
		err = heir.SetLock(ctx, cr, m.Handle, o.State, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: toEnd})
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > lease {
		t.Logf("slow: %v, so that the lock may have ended with the lease of %v", d, lease)
	}
	if err := heir.CloseFile(ctx, cr, m.Handle, o.State); err != nil {
		t.Error(err)
	}
}

func TestGanesha4Successor(t *testing.T) {
	inGanesha(t, func(t *testing.T, _ *ganesha) {
		at := netip.MustParseAddrPort(ganeshaAddr)
		for name, minor := range minors {
			t.Run(name, func(t *testing.T) {
				// In its first grace period the server grants nothing.
				first := newUser4(t, dialHard(t, at), minor, "/export/sub")
				h, st := first.create("first")
				first.close(h, st)
				successor4(t, func() transport.Caller { return dialHard(t, at) }, minor, "/export/sub", 10*time.Second)
			})
		}
	})
}
