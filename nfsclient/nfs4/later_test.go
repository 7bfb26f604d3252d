package nfs4

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// TestLater: DELAY is waited out however long it takes, RESOURCE for a while: a server may never have what it
// lacks.
func TestLater(t *testing.T) {
	f := newFake()
	c, slept := mountFake(t, f, 2)
	n := 0
	answer := func(st wire.Status, times int) {
		n = 0
		f.script(func(o wire.Operation) (wire.Status, bool) {
			if o.Op() != wire.OpGetAttr {
				return wire.OK, false
			}
			if n++; times > 0 && n > times {
				return wire.OK, false
			}
			return st, true
		})
	}
	answer(wire.ErrDelay, 1000)
	if _, err := c.GetAttr(t.Context(), nfsclient.Cred{}, "h"); err != nil {
		t.Errorf("after 1000 times DELAY: %v", err)
	}
	answer(wire.ErrResource, maxResource-1)
	if _, err := c.GetAttr(t.Context(), nfsclient.Cred{}, "h"); err != nil {
		t.Errorf("after %d times RESOURCE: %v", maxResource-1, err)
	}
	answer(wire.ErrResource, 0)
	before := slept()
	if _, err := c.GetAttr(t.Context(), nfsclient.Cred{}, "h"); !errors.Is(err, syscall.EREMOTEIO) || n != maxResource {
		t.Errorf("RESOURCE without end: %v after %d tries", err, n)
	}
	if d := slept() - before; d < 5*time.Second || d > time.Minute {
		t.Errorf("given up after %v", d)
	}
}

// TestRecoveryDelayed: a server that puts off the reclaim of a file for longer than its grace period lasts does not
// keep all other calls waiting; the file is opened anew.
func TestRecoveryDelayed(t *testing.T) {
	f := newFake()
	c, slept := mountFake(t, f, 2)
	o, err := c.OpenFile(t.Context(), nfsclient.Cred{}, "file", nfsclient.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	claims := map[wire.ClaimType]int{}
	f.script(func(o wire.Operation) (wire.Status, bool) {
		if o, ok := o.(*wire.Open); ok {
			claims[o.Claim]++
			if o.Claim == wire.ClaimPrevious {
				return wire.ErrDelay, true
			}
		}
		return wire.OK, false
	})
	f.restart()
	if _, err := c.GetAttr(t.Context(), nfsclient.Cred{}, "file"); err != nil {
		t.Error(err)
	}
	if n := claims[wire.ClaimPrevious]; n < 10 {
		t.Errorf("%d tries to reclaim", n)
	}
	if d := slept(); d < 90*time.Second || d > 4*time.Minute {
		t.Errorf("given up after %v", d)
	}
	if err := c.CloseFile(t.Context(), nfsclient.Cred{}, "file", o.State); err != nil {
		t.Error(err)
	}
}
