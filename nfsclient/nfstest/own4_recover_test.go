package nfstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// eventually waits until something is so that another goroutine brings about.
func (o *own4) eventually(what string, so func() bool) {
	o.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			o.Fatalf("not so: %s", what)
		}
	}
}

// TestOwn4Delays: whatever operation the server puts off, and however often, it is carried out once
// in the end.
func TestOwn4Delays(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		for i, a := range acts4 {
			if o.minor < a.minor {
				continue
			}
			o.limited(a.name, func() {
				name := fmt.Sprintf("delay-%d", i)
				p := u.prepare(name)
				op := opNumber(o.T, a.op)
				o.script.Fail(op, wire.ErrDelay, 1, 2)
				if err := a.do(u, name, p); err != nil {
					o.Errorf("%s: %v", a.name, err)
				}
				u.finish(p)
				o.script.Clear()
			})
		}
		if n := o.s.State().Counts(); n.Opens != 0 || n.Locks != 0 {
			o.Errorf("left: %+v", n)
		}
	})
}

// TestOwn4DelayBehind: what a compound has done stays done, and is done once, if the server puts off
// an operation behind it.
func TestOwn4DelayBehind(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		for i, a := range acts4 {
			if o.minor < a.minor {
				continue
			}
			o.limited(a.name, func() {
				name := fmt.Sprintf("delays-%d", i)
				p := u.prepare(name)
				o.script.Fail(wire.OpGetAttr, wire.ErrDelay, 1, 1)
				if err := a.do(u, name, p); err != nil {
					o.Errorf("%s: %v", a.name, err)
				}
				o.script.Clear()
				u.finish(p)
			})
		}
		if o.script.Struck() < 5 {
			o.Errorf("%d operations were put off", o.script.Struck())
		}
		if n := o.s.State().Counts(); n.Opens != 0 || n.Locks != 0 {
			o.Errorf("left: %+v", n)
		}
	})
}

// worker4 goes on with a file of its own, and a lock in it, until it is stopped.
type worker4 struct {
	u     *user4
	i     int
	buf   mem.Vec
	h     nfsclient.Handle
	st    nfsclient.OpenState
	count int
}

func (w *worker4) owner() nfsclient.LockOwner { return nfsclient.LockOwner(100 + w.i) }

// run counts up what stands in the file, now and then by a file made, moved and removed.
func (w *worker4) run(stop *atomic.Bool) error {
	ctx, cr := w.u.Context(), nfsclient.Cred{}
	name := fmt.Sprintf("worker-%d", w.i)
	m, err := w.u.c.Create(ctx, cr, w.u.root, name, nfsclient.SetAttr{Mode: ptr(uint32(0o644))}, true, nfsclient.OpenRead|nfsclient.OpenWrite)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	w.h, w.st = m.Handle, m.State
	if err := w.u.set(ctx, w.h, w.st, w.owner(), nfsclient.WriteLock, 0, 99); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	for !stop.Load() {
		if err := w.step(ctx, cr, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker4) step(ctx context.Context, cr nfsclient.Cred, name string) error {
	w.count++
	w.buf.CopyIn(0, fmt.Appendf(nil, "%08d", w.count))
	if _, err := w.u.writeNow(ctx, cr, w.h, w.st, 0, w.buf); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if _, err := w.u.c.Read(ctx, cr, w.h, w.st, 0, w.buf); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	got := make([]byte, 8)
	w.buf.CopyOut(0, got)
	if want := fmt.Sprintf("%08d", w.count); string(got) != want {
		return fmt.Errorf("reads %q, wrote %q", got, want)
	}
	if w.count%3 != 0 {
		return nil
	}
	m, err := w.u.c.Create(ctx, cr, w.u.root, name+"-a", nfsclient.SetAttr{Mode: ptr(uint32(0o600))}, true, nfsclient.OpenWrite)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	// What was carried out by a server that was gone before it could answer is asked of the next one
	// anew: its memory of calls is gone too (RFC 8881 section 2.10.6.5).
	if _, _, err := w.u.c.Rename(ctx, cr, w.u.root, name+"-a", w.u.root, name+"-b"); err != nil && !isStatus(err, nfsclient.ErrNoEnt) {
		return fmt.Errorf("rename: %w", err)
	}
	if f, err := w.u.c.Lookup(ctx, cr, w.u.root, name+"-b"); err != nil || f.Handle != m.Handle {
		return fmt.Errorf("lookup of what was renamed: %x, %w", f.Handle, err)
	}
	if err := w.u.c.CloseFile(ctx, cr, m.Handle, m.State); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if _, err := w.u.c.Remove(ctx, cr, w.u.root, name+"-b"); err != nil && !isStatus(err, nfsclient.ErrNoEnt) {
		return fmt.Errorf("remove: %w", err)
	}
	if _, err := w.u.c.Lookup(ctx, cr, w.u.root, name+"-b"); !isStatus(err, nfsclient.ErrNoEnt) {
		return fmt.Errorf("lookup of what was removed: %w", err)
	}
	return nil
}

// underLoad has workers go on while f disturbs them, and says how many steps they took in all. Each
// of them has its file open still.
func (o *own4) underLoad(u *user4, n int, f func(steps func())) []*worker4 {
	o.Helper()
	workers := make([]*worker4, n)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var failed atomic.Bool
	for i := range workers {
		w := &worker4{u: u, i: i, buf: mem.Vec{u.buf.Seg(8*i, 8)}}
		workers[i] = w
		wg.Go(func() {
			if err := w.run(&stop); err != nil {
				failed.Store(true)
				o.Errorf("worker %d, step %d: %v", w.i, w.count, err)
			}
		})
	}
	steps := func() { // a while in which work goes on
		before := o.done("WRITE")
		o.eventually("work goes on", func() bool { return failed.Load() || o.done("WRITE") > before+uint64(5*n) })
	}
	steps()
	f(steps)
	steps()
	stop.Store(true)
	wg.Wait()
	return workers
}

func (o *own4) closeWorkers(u *user4, workers []*worker4) {
	o.Helper()
	for _, w := range workers {
		if w.st != nil {
			u.close(w.h, w.st)
		}
	}
	if n := o.s.State().Counts(); n.Opens != 0 || n.Locks != 0 || n.Revoked != 0 {
		o.Errorf("left: %+v", n)
	}
}

// TestOwn4Restarts: the server restarts several times under load, with a grace period. Nobody loses
// an opening or a lock.
func TestOwn4Restarts(t *testing.T) {
	onOwn4(t, nfsd.Config{Grace: time.Minute}, func(o *own4) {
		u := o.user(o.T)
		o.limited("restarts", func() {
			workers := o.underLoad(u, 4, func(steps func()) {
				for range 3 {
					o.script.Restart(true)
					steps()
				}
				// During grace, too.
				o.script.Restart(true)
				o.script.Restart(true)
				steps()
			})
			other := o.user(o.T)
			for _, w := range workers {
				if err := u.lost.of(w.owner()); err != nil {
					o.Errorf("worker %d was told that its lock is lost: %v", w.i, err)
				}
				if other.free(w.h, 1, nfsclient.ReadLock, 50, 50) {
					o.Errorf("the lock of worker %d is free", w.i)
				}
			}
			o.closeWorkers(u, workers)
		})
	})
}

// lossTest4 has all state lost under load, by one of the script's orders. Files stay usable, and the
// owners of locks are told.
func lossTest4(t *testing.T, lose func(o *own4)) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		o.limited("loss of all state", func() {
			workers := o.underLoad(u, 4, func(steps func()) {
				lose(o)
				steps()
			})
			for _, w := range workers {
				o.eventually(fmt.Sprintf("worker %d was told that its lock is lost", w.i), func() bool { return u.lost.of(w.owner()) != nil })
			}
			other := o.user(o.T)
			for _, w := range workers {
				if !other.free(w.h, 1, nfsclient.WriteLock, 0, 99) {
					o.Errorf("the lock of worker %d, who was told that it is lost, is there", w.i)
				}
			}
			o.closeWorkers(u, workers)
		})
	})
}

func TestOwn4RestartWithoutGrace(t *testing.T) {
	lossTest4(t, func(o *own4) { o.script.Restart(false) })
}

func TestOwn4Expired(t *testing.T) {
	lossTest4(t, func(o *own4) {
		if o.script.Expire() == 0 {
			o.Error("nobody has expired")
		}
	})
}

func TestOwn4StateExpired(t *testing.T) {
	lossTest4(t, func(o *own4) {
		if o.script.ExpireState() == 0 {
			o.Error("nothing has expired")
		}
	})
}

func TestOwn4Revoked(t *testing.T) {
	lossTest4(t, func(o *own4) {
		if o.script.Revoke() == 0 {
			o.Error("nothing was revoked")
		}
	})
}

// TestOwn4Slots: slots are taken away and given again under load, down to one.
func TestOwn4Slots(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		o.limited("slots", func() {
			workers := o.underLoad(u, 8, func(steps func()) {
				for _, n := range []uint32{2, 64, 1, 3, 1, 64} {
					o.script.Slots(n)
					steps()
				}
			})
			o.closeWorkers(u, workers)
		})
	})
}

// TestOwn4ReclaimRefused: what the server does not let be reclaimed is opened anew, and the lock is
// lost.
func TestOwn4ReclaimRefused(t *testing.T) {
	for _, st := range []wire.Status{wire.ErrReclaimBad, wire.ErrNoGrace, wire.ErrReclaimConflict} {
		t.Run(wire.StatusName(st), func(t *testing.T) {
			onOwn4(t, nfsd.Config{Grace: time.Minute}, func(o *own4) {
				u := o.user(o.T)
				h, open := u.create("refused")
				u.must(u.set(u.Context(), h, open, 1, nfsclient.WriteLock, 0, 9))
				o.limited("reclaim", func() {
					o.script.Fail(wire.OpOpen, st, 1, 1)
					o.script.Restart(true)
					u.write(h, open, 0, "after")
					if got := u.read(h, open, 10); got != "after" {
						o.Errorf("%q", got)
					}
					o.eventually("the lock's owner was told", func() bool { return u.lost.of(1) != nil })
					u.close(h, open)
				})
			})
		})
	}
}

// TestOwn4IdleLease: a client that is idle keeps its lease, by calls of its own.
func TestOwn4IdleLease(t *testing.T) {
	onOwn4(t, nfsd.Config{Lease: 2 * time.Second}, func(o *own4) {
		u := o.user(o.T)
		h, st := u.create("leased")
		u.must(u.set(u.Context(), h, st, 1, nfsclient.WriteLock, 0, 9))
		before := o.done("SEQUENCE")
		o.eventually("three renewals", func() bool { return o.done("SEQUENCE") >= before+3 })
		if n := o.s.State().Counts(); n.Opens != 1 || n.Locks != 1 {
			o.Errorf("%+v", n)
		}
		u.close(h, st)
	})
}

// TestOwn4Held: a call that the server works on for long, and that is sent again over another
// connection meanwhile, is carried out once.
func TestOwn4Held(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		o.limited("held", func() {
			entered, release := o.script.Hold(wire.OpCreate, 1)
			made := make(chan error, 1)
			before := o.done("CREATE")
			go func() {
				_, err := u.c.Mkdir(u.Context(), nfsclient.Cred{}, u.root, "held", nfsclient.SetAttr{Mode: ptr(uint32(0o755))})
				made <- err
			}()
			<-entered
			// Other slots go on.
			if _, err := u.c.GetAttr(u.Context(), nfsclient.Cred{}, u.root); err != nil {
				o.Error(err)
			}
			release()
			if err := <-made; err != nil {
				o.Error(err)
			}
			if n := o.done("CREATE") - before; n != 1 {
				o.Errorf("made %d times", n)
			}
		})
	})
}

// TestOwn4GivenUp: who gives a call up, and then loses the connection, leaves nothing open and does
// not disturb the slot's next call.
func TestOwn4GivenUp(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		h, st := u.create("given up")
		o.limited("given up", func() {
			for range 3 {
				entered, release := o.script.Hold(wire.OpOpen, 1)
				ctx, cancel := context.WithCancel(u.Context())
				opened := make(chan error, 1)
				go func() {
					_, err := u.c.OpenFile(ctx, nfsclient.Cred{}, h, nfsclient.OpenRead)
					opened <- err
				}()
				<-entered
				cancel()
				if err := <-opened; !errors.Is(err, context.Canceled) {
					o.Errorf("given up: %v", err)
				}
				release()
				<-o.s.Cut()
				u.write(h, st, 0, "goes on")
			}
			u.close(h, st)
			o.eventually("what was opened for nobody is closed", func() bool { return o.s.State().Counts().Opens == 0 })
		})
	})
}
