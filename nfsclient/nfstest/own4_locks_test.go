package nfstest

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestOwn4RestartLingering: locks whose stateid belongs to an opening that was widened, and is closed but for them, outlive a restart
// of the server. With them that opening ends.
func TestOwn4RestartLingering(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		a, b := o.user(o.T), o.user(o.T)
		ctx := o.Context()
		h, st := a.create("lingering")
		a.close(h, st)
		first, second := a.open(h, nfsclient.OpenRead), a.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
		a.must(a.set(ctx, h, first, 7, nfsclient.ReadLock, 0, 9))
		a.must(a.set(ctx, h, second, 7, nfsclient.WriteLock, 20, 29))
		a.close(h, first)
		o.script.Restart(true)
		_, err := a.c.GetAttr(ctx, nfsclient.Cred{}, h)
		a.must(err)
		o.s.State().EndGrace()
		for _, at := range []uint64{0, 20} {
			if b.free(h, 1, nfsclient.WriteLock, at, at+9) {
				o.Errorf("the lock at %d is free", at)
			}
		}
		if err := a.lost.of(7); err != nil {
			o.Errorf("the owner was told %v", err)
		}
		if n := o.s.State().Counts(); n.Opens != 2 {
			o.Errorf("%d files are open at the server", n.Opens)
		}
		a.must(a.set(ctx, h, second, 7, nfsclient.Unlocked, 0, toEnd))
		if n := o.s.State().Counts(); n.Opens != 1 {
			o.Errorf("without locks %d files are open at the server", n.Opens)
		}
		a.close(h, second)
		if n := o.s.State().Counts(); n.Opens != 0 || n.Locks != 0 {
			o.Errorf("left: %+v", n)
		}
	})
}

// TestOwn4ReclaimedInPart: of an owner's locks one cannot be reclaimed. He is told, and nothing of the others stays at the server.
func TestOwn4ReclaimedInPart(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		a, b := o.user(o.T), o.user(o.T)
		ctx := o.Context()
		h, st := a.create("in-part")
		a.must(a.set(ctx, h, st, 7, nfsclient.ReadLock, 0, 9))
		a.must(a.set(ctx, h, st, 7, nfsclient.WriteLock, 20, 29))
		o.script.Fail(wire.OpLock, wire.ErrReclaimConflict, 2, 1)
		o.script.Restart(true)
		_, err := a.c.GetAttr(ctx, nfsclient.Cred{}, h)
		a.must(err)
		o.script.Clear()
		o.s.State().EndGrace()
		o.eventually("the owner was told", func() bool { return a.lost.of(7) != nil })
		for _, at := range []uint64{0, 20} {
			if !b.free(h, 1, nfsclient.WriteLock, at, at+9) {
				o.Errorf("the lost lock at %d is there", at)
			}
		}
		a.close(h, st)
		if n := o.s.State().Counts(); n.Opens != 0 || n.Locks != 0 {
			o.Errorf("left: %+v", n)
		}
	})
}
