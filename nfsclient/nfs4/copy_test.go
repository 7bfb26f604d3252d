package nfs4

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// copyRig is a client with two open files, whose server answers as clone, copy and status say; nil for OK.
type copyRig struct {
	*testing.T
	f        *fake
	c        *Client
	from, to nfsclient.Opened
	clone    func(o *wire.Clone) wire.Status
	copy     func(o *wire.Copy) wire.Status
	status   func(o *wire.OffloadStatus) wire.Status
	cancel   func(o *wire.OffloadCancel) wire.Status
}

func newCopyRig(t *testing.T) *copyRig {
	r := &copyRig{T: t, f: newFake()}
	r.c, _ = mountFake(t, r.f, 2)
	var err error
	if r.from, err = r.c.OpenFile(t.Context(), nfsclient.Cred{}, "from", nfsclient.OpenRead); err != nil {
		t.Fatal(err)
	}
	if r.to, err = r.c.OpenFile(t.Context(), nfsclient.Cred{}, "to", nfsclient.OpenWrite); err != nil {
		t.Fatal(err)
	}
	r.f.script(func(o wire.Operation) (wire.Status, bool) {
		switch o := o.(type) {
		case *wire.Clone:
			if r.clone != nil {
				return r.clone(o), true
			}
		case *wire.Copy:
			o.Copied, o.ResConsecutive, o.ResSynchronous = o.Count, true, true
			if r.copy != nil {
				return r.copy(o), true
			}
			return wire.OK, true
		case *wire.OffloadStatus:
			return r.status(o), true
		case *wire.OffloadCancel:
			return r.cancel(o), true
		}
		return wire.OK, false
	})
	return r
}

func (r *copyRig) do(ctx context.Context, from, to, n uint64) (nfsclient.WriteResult, error) {
	return r.c.Copy(ctx, nfsclient.Cred{}, "from", r.from.State, from, "to", r.to.State, to, n)
}

// ops checks how often the server was asked to do what.
func (r *copyRig) ops(clones, copies int) {
	r.Helper()
	if a, b := r.f.count(wire.OpClone), r.f.count(wire.OpCopy); a != clones || b != copies {
		r.Errorf("%d CLONEs and %d COPYs instead of %d and %d", a, b, clones, copies)
	}
}

// TestClone: whole blocks are cloned, and stable; what is not cloned is copied.
func TestClone(t *testing.T) {
	r := newCopyRig(t)
	try := func(from, to, n uint64, want nfsclient.Stable) {
		t.Helper()
		if w, err := r.do(t.Context(), from, to, n); err != nil || w.N != int(n) || w.Committed != want {
			t.Errorf("%+v, %v", w, err)
		}
	}
	try(4096, 0, 10000, nfsclient.FileSync)
	r.ops(1, 0)
	try(4096, 1, 10000, nfsclient.Unstable)
	try(1, 0, 10000, nfsclient.Unstable)
	r.ops(1, 2)
	for _, st := range []wire.Status{nfsclient.ErrInval, nfsclient.ErrXDev} {
		r.clone = func(*wire.Clone) wire.Status { return st }
		try(0, 4096, 8192, nfsclient.Unstable)
	}
	r.ops(3, 4)
	r.clone = func(*wire.Clone) wire.Status { return nfsclient.ErrNoSpace }
	if _, err := r.do(t.Context(), 0, 4096, 8192); !errors.Is(err, syscall.ENOSPC) && nfsclient.Errno(err) != syscall.ENOSPC {
		t.Errorf("no space: %v", err)
	}
	r.ops(4, 4)
	r.clone = func(*wire.Clone) wire.Status { return nfsclient.ErrNotSupp }
	for range 3 {
		try(0, 0, 4096, nfsclient.Unstable)
	}
	r.ops(5, 7)
}

// TestCopyAsynchronous: a server that only copies asynchronously is asked whether it has done so, until it has.
func TestCopyAsynchronous(t *testing.T) {
	r := newCopyRig(t)
	r.copy = func(o *wire.Copy) wire.Status {
		if o.Synchronous {
			o.ResConsecutive, o.ResSynchronous = true, false
			return wire.ErrOffloadNoReqs
		}
		o.HasCallback, o.Callback, o.Copied, o.Committed = true, wire.Stateid{Seqid: 1, Other: [12]byte{9}}, 0, nfsclient.FileSync
		return wire.OK
	}
	asked := 0
	r.status = func(o *wire.OffloadStatus) wire.Status {
		if o.Stateid.Other[0] != 9 {
			return wire.ErrBadStateid
		}
		switch asked++; asked {
		case 1:
			o.Copied = 100
		case 2:
			return wire.ErrDelay
		case 3:
			return wire.ErrBadStateid // as after a restart
		default:
			o.Copied, o.Complete = 5000, true
		}
		return wire.OK
	}
	for range 2 {
		if w, err := r.do(t.Context(), 1, 0, 10000); err != nil || w.N != 5000 || w.Committed != nfsclient.Unstable {
			t.Errorf("%+v, %v", w, err)
		}
	}
	r.ops(0, 4) // the refused one, that which the restart took, and one each
	for _, x := range []struct {
		answer func(o *wire.OffloadStatus) wire.Status
		want   syscall.Errno
	}{
		{func(o *wire.OffloadStatus) wire.Status {
			o.Complete, o.Outcome = true, nfsclient.ErrNoSpace
			return wire.OK
		}, syscall.ENOSPC},
		{func(*wire.OffloadStatus) wire.Status { return nfsclient.ErrNotSupp }, syscall.EIO},
		{func(*wire.OffloadStatus) wire.Status { return wire.ErrBadStateid }, syscall.EIO},
		{func(o *wire.OffloadStatus) wire.Status {
			o.Complete, o.Copied = true, 10001
			return wire.OK
		}, syscall.EIO},
	} {
		r.status = x.answer
		if w, err := r.do(t.Context(), 1, 0, 10000); err == nil || nfsclient.Errno(err) != x.want {
			t.Errorf("%+v, %v instead of %v", w, err, x.want)
		}
	}
}

// TestCopyCanceled: a copy that goes on is ended at the server when nobody waits for it any more; nor does anybody wait for that.
func TestCopyCanceled(t *testing.T) {
	r := newCopyRig(t)
	r.copy = func(o *wire.Copy) wire.Status {
		o.HasCallback, o.Callback = true, wire.Stateid{Seqid: 1, Other: [12]byte{9}}
		return wire.OK
	}
	r.status = func(*wire.OffloadStatus) wire.Status { return wire.OK }
	// Until the caller has gone the server is too busy for OFFLOAD_CANCEL.
	returned, ended := make(chan struct{}), make(chan struct{})
	r.cancel = func(o *wire.OffloadCancel) wire.Status {
		select {
		case <-returned:
			close(ended)
			return wire.OK
		default:
			return wire.ErrDelay
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	sleep := r.c.sleep
	r.c.sleep = func(ctx context.Context, d time.Duration) error {
		if n++; n == 5 {
			cancel()
		}
		return sleep(ctx, d)
	}
	if _, err := r.do(ctx, 1, 0, 10000); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(returned)
	<-ended
}

// TestCloneBlockSize: a server's own block size is obeyed.
func TestCloneBlockSize(t *testing.T) {
	r := &copyRig{T: t, f: newFake()}
	r.f.attrs.Mask.Add(wire.AttrCloneBlockSize)
	r.f.attrs.SupportedAttrs, r.f.attrs.CloneBlockSize = r.f.attrs.Mask, 1<<16
	c, _ := mountFake(t, r.f, 2)
	for off, whole := range map[uint64]bool{0: true, 4096: false, 1 << 16: true, 3 << 16: true} {
		if f := (&copyOf{c: c, fromOff: off}); f.whole() != whole {
			t.Errorf("at %d: %v", off, !whole)
		}
	}
}

// TestCopyLosesOne: the server has lost the state of the target alone. The source is not opened anew, with which its locks would be
// given up.
func TestCopyLosesOne(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 2)
	serial, gone := byte(0), [12]byte{}
	opens := map[string]int{}
	f.script(func(o wire.Operation) (wire.Status, bool) {
		switch o := o.(type) {
		case *wire.Open:
			serial++
			opens[o.Owner.Owner]++
			o.Stateid = wire.Stateid{Seqid: 1, Other: [12]byte{serial}}
		case *wire.Lock:
			o.Stateid = wire.Stateid{Seqid: 1, Other: [12]byte{100}}
		case *wire.Copy:
			if o.To.Other == gone || o.From.Other == gone {
				return wire.ErrBadStateid, true
			}
			o.Copied, o.ResConsecutive, o.ResSynchronous = o.Count, true, true
		case *wire.TestStateID:
			o.Statuses = nil
			for _, sid := range o.Stateids {
				st := wire.OK
				if sid.Other == gone {
					st = wire.ErrBadStateid
				}
				o.Statuses = append(o.Statuses, st)
			}
		default:
			return wire.OK, false
		}
		return wire.OK, true
	})
	from, err := c.OpenFile(t.Context(), nfsclient.Cred{}, "from", nfsclient.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	to, err := c.OpenFile(t.Context(), nfsclient.Cred{}, "to", nfsclient.OpenWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetLock(t.Context(), nfsclient.Cred{}, "from", from.State, 1, nfsclient.Lock{Type: nfsclient.ReadLock, Last: 9}); err != nil {
		t.Fatal(err)
	}
	gone = [12]byte{2}
	if w, err := c.Copy(t.Context(), nfsclient.Cred{}, "from", from.State, 1, "to", to.State, 0, 100); err != nil || w.N != 100 {
		t.Errorf("%+v, %v", w, err)
	}
	if a, b := opens["open 1"], opens["open 2"]; a != 1 || b != 2 {
		t.Errorf("the source was opened %d times, the target %d times", a, b)
	}
	if n := c.Seen().Locks; n != 1 {
		t.Errorf("%d locks are left", n)
	}
}
